//! The counters of a write's result.

/// How many changes of each kind a statement has made, as the server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// `nodes-created`.
    pub nodes_created: i64,
    /// `nodes-deleted`.
    pub nodes_deleted: i64,
    /// `relationships-created`.
    pub relationships_created: i64,
    /// `relationships-deleted`, with those that `DETACH` deletes.
    pub relationships_deleted: i64,
    /// `properties-set`, with those that are removed.
    pub properties_set: i64,
    /// `labels-added`, with those of new nodes.
    pub labels_added: i64,
    /// `labels-removed`.
    pub labels_removed: i64,
    /// All counters that this crate does not know, such as those of indexes and constraints.
    pub others: i64,
}

impl Counters {
    /// The counters from the numbers in the summary's `stats`, by their names in Bolt.
    #[must_use]
    pub fn of<'a>(stats: impl IntoIterator<Item = (&'a str, i64)>) -> Self {
        let mut counters = Self::default();
        for (name, count) in stats {
            *counters.named(name) += count;
        }
        counters
    }

    /// The same, as far as what a run has done depends on them ([`crate::tags::anchored::AnchoredWrite::narrowed`]): whether there were
    /// any, and how many nodes were made.
    #[must_use]
    pub fn as_far_as_they_narrow(&self) -> Self {
        let any = |count: i64| i64::from(count != 0);
        Self {
            nodes_created: self.nodes_created,
            nodes_deleted: any(self.nodes_deleted),
            relationships_created: any(self.relationships_created),
            relationships_deleted: any(self.relationships_deleted),
            properties_set: any(self.properties_set),
            labels_added: any(self.labels_added),
            labels_removed: any(self.labels_removed),
            others: any(self.others),
        }
    }

    fn named(&mut self, name: &str) -> &mut i64 {
        match name {
            "nodes-created" => &mut self.nodes_created,
            "nodes-deleted" => &mut self.nodes_deleted,
            "relationships-created" => &mut self.relationships_created,
            "relationships-deleted" => &mut self.relationships_deleted,
            "properties-set" => &mut self.properties_set,
            "labels-added" => &mut self.labels_added,
            "labels-removed" => &mut self.labels_removed,
            _ => &mut self.others,
        }
    }
}
