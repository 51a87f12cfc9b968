//! The workloads: which requests there are, and in which order sessions ask for them. Requests and order are drawn
//! before anything runs, so no answer and no arm changes them.

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Workload {
    /// Four kernels on an R-MAT graph, swept by sessions.
    Rmat,
    /// Three reads about each person of a social graph, hubs most often.
    Social,
    /// Sessions that walk over the social graph, as in the prefetch benchmark.
    Walks,
    /// Point reads of the R-MAT graph's vertices, Zipf 0.8.
    #[value(name = "zipf-0.8")]
    Zipf08,
    /// The same, Zipf 0.99.
    #[value(name = "zipf-0.99")]
    Zipf099,
    /// The same, Zipf 1.2.
    #[value(name = "zipf-1.2")]
    Zipf12,
}

impl Workload {
    pub(super) const ALL: [Self; 6] =
        [Self::Rmat, Self::Social, Self::Walks, Self::Zipf08, Self::Zipf099, Self::Zipf12];

    /// For the report.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Rmat => {
                "sessions sweep four reads like SSCA#2's kernels over an R-MAT graph: a vertex' heaviest neighbours, the graph's heaviest edges, the subgraph of two hops, paths of two hops through the vertex and how many are closed; 70 % of the sweeps go on to a neighbour that was shown, the others jump (Zipf 0.99 over vertices by degree)"
            }
            Self::Social => {
                "three reads about each person of LDBC SNB's data (not the LDBC benchmark), Zipf 0.99, best known persons first; each request is drawn on its own"
            }
            Self::Walks => {
                "sessions walk over LDBC SNB's data as in `bench prefetch`: six kinds of page, 70 % of the clicks follow an earlier result"
            }
            Self::Zipf08 | Self::Zipf099 | Self::Zipf12 => {
                "point reads of the R-MAT graph's vertices by this exponent of Zipf; each request is drawn on its own"
            }
        }
    }

    /// The exponent of point reads.
    pub(super) const fn exponent(self) -> Option<f64> {
        match self {
            Self::Zipf08 => Some(0.8),
            Self::Zipf099 => Some(0.99),
            Self::Zipf12 => Some(1.2),
            Self::Rmat | Self::Social | Self::Walks => None,
        }
    }

    /// Whether it asks LDBC's data; else it asks the R-MAT graph.
    pub(super) const fn is_social(self) -> bool {
        matches!(self, Self::Social | Self::Walks)
    }
}
