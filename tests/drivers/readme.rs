//! The snippets for drivers in docs/drivers.md and in guides, as they stand there: run before a node with the sample graph, at its
//! address. README has the first one of them.

use std::path::Path;
use std::process::Command;

use crate::drivers::install::{Driver, java, lines};
use crate::support::lone::{Lone, Spec};

/// What the snippets name: the first of three nodes of `cargo demo`.
const ADDRESS: &str = "localhost:7478";

/// Documents with a whole program in Python.
const WITH_PROGRAM: [&str; 2] = ["docs/clients.md", "docs/guides/graphrag.md"];

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The code of a language in the page about drivers.
fn snippet(language: &str) -> String {
    code_in(&document("docs/drivers.md"), language)
}

/// The first code of a language.
fn code_in(text: &str, language: &str) -> String {
    let code = text.split_once(&format!("\n```{language}\n")).expect("code of the language").1;
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
async fn the_snippets_for_drivers_run_as_they_stand_there() {
    assert_eq!(code_in(&document("README.md"), "python"), snippet("python"), "README has the page's snippet");
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

/// The programs of other documents: what they print says what the cache did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_programs_of_the_guides_run_as_they_stand_there() {
    let node = Lone::start(&Spec { prefetches: false, ..Spec::embedded("") }).await;
    let address = format!("localhost:{}", node.addrs.bolt.port());
    let folder = tempfile::tempdir().unwrap();
    let python = Driver::newest("python").installed().join("venv/bin/python");
    let mut printed = Vec::new();
    for (place, name) in WITH_PROGRAM.into_iter().enumerate() {
        let text = document(name);
        assert_eq!(text.matches("\n```python\n").count(), 1, "{name}: one program is run");
        let code = code_in(&text, "python");
        assert_eq!(code.matches(ADDRESS).count(), 1, "{code}");
        let file = folder.path().join(format!("{place}.py"));
        std::fs::write(&file, code.replace(ADDRESS, &address)).unwrap();
        printed.push(lines(Command::new(&python).arg(file)));
    }
    let [client, rag] = printed.as_slice() else { panic!("{printed:?}") };
    assert!(client[0].contains("fwd=miss") && client[0].contains("stored"), "{client:?}");
    assert!(rag[0].starts_with("5 friends;") && rag[0].contains("fwd=miss"), "{rag:?}");
    assert!(rag[1].starts_with("5 friends;") && rag[1].contains("; hit"), "{rag:?}");
}
