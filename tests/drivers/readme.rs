//! The README's snippets for drivers, as they stand there: run before a node with the sample graph, at its address.

use std::path::Path;
use std::process::Command;

use crate::install::{Driver, java, lines};
use crate::support::lone::{Lone, Spec};

/// What the section names: the first of three nodes of `cargo run --release`.
const ADDRESS: &str = "localhost:7478";

/// The code of a language in the README's section about drivers.
fn snippet(language: &str) -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let section = readme.split_once("\n## With a driver\n").expect("the section").1;
    let section = section.split("\n## ").next().unwrap();
    let code = section.split_once(&format!("\n```{language}\n")).expect("code of the language").1;
    code.split("\n```").next().unwrap().to_owned()
}

/// A program around a snippet: it prints the number that the snippet has read.
fn whole(language: &str, code: &str) -> String {
    match language {
        "python" => {
            format!("from neo4j import GraphDatabase\n{code}\nprint(records[0]['people'])\ndriver.close()\n")
        }
        "javascript" => format!(
            "const neo4j = require('neo4j-driver')\n;(async () => {{\n{code}\n\
             console.log(records[0].get('people').toString())\nawait driver.close()\n}})()\n"
        ),
        "java" => format!(
            "import org.neo4j.driver.*;\npublic class Readme {{\n    public static void main(String[] args) {{\n{code}\n\
             System.out.println(result.records().get(0).get(\"people\"));\ndriver.close();\n    }}\n}}\n"
        ),
        _ => format!(
            "package main\n\nimport (\n\"context\"\n\"fmt\"\n\"github.com/neo4j/neo4j-go-driver/v6/neo4j\"\n)\n\n\
             func main() {{\nctx := context.Background()\n{code}\nif err != nil {{\npanic(err)\n}}\n\
             fmt.Println(result.Records[0].Values[0])\ndriver.Close(ctx)\n}}\n"
        ),
    }
}

fn run(driver: Driver, code: &str, folder: &Path) -> Vec<String> {
    let installed = driver.installed();
    let (name, mut command) = match driver.language {
        "python" => ("readme.py", Command::new(installed.join("venv/bin/python"))),
        "javascript" => {
            let mut node = Command::new("node");
            node.env("NODE_PATH", installed.join("node_modules"));
            ("readme.js", node)
        }
        "java" => {
            let mut java = java(folder);
            java.arg(installed.join("lib/*"));
            ("Readme.java", java)
        }
        _ => {
            for name in ["go.mod", "go.sum"] {
                std::fs::copy(installed.join("programs").join(name), folder.join(name)).unwrap();
            }
            let mut go = Command::new("go");
            go.args(["run", "-mod=mod"]);
            ("readme.go", go)
        }
    };
    std::fs::write(folder.join(name), whole(driver.language, code)).unwrap();
    lines(command.current_dir(folder).arg(name))
}

/// Must-show 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readmes_snippets_run_as_they_stand_there() {
    let node = Lone::start(&Spec { prefetches: false, ..Spec::embedded("") }).await;
    let address = format!("localhost:{}", node.addrs.bolt.port());
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for language in ["python", "javascript", "java", "go"] {
        let code = snippet(language);
        assert_eq!(code.matches(ADDRESS).count(), 1, "{code}");
        seen.push(run(Driver::newest(language), &code.replace(ADDRESS, &address), folder.path()));
    }
    assert!(seen[0][0].parse::<u64>().is_ok_and(|people| people > 0), "{seen:?}");
    assert!(seen.iter().all(|each| each == &seen[0]), "{seen:?}");
    let hits = node.count("cache_hit_total", "").await;
    assert!(hits >= 3.0, "the first language fills the entry, the others hit: {hits}");
}
