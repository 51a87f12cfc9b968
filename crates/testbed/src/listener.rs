//! Which process of this machine listens on a TCP port, from `/proc`. Decides nothing about the process.

use std::path::Path;

/// State 0A in `/proc/net/tcp` is LISTEN (proc(5)).
const LISTEN: &str = "0A";

/// The id of the process that listens on this port. `None` if there is no such process, or if its files cannot be read:
/// it belongs to another user, or runs on another machine.
pub fn pid_on_port(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let sockets: Vec<String> = tables.iter().flatten().flat_map(|table| sockets(table, port)).collect();
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| holds_one(Path::new(&format!("/proc/{pid}/fd")), &sockets))
}

/// Names of the listening sockets of a port, as links in `/proc/PID/fd` show them.
fn sockets(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = lines.filter(|fields| {
        fields.get(1).is_some_and(|address| address.ends_with(&suffix)) && fields.get(3) == Some(&LISTEN)
    });
    listening.filter_map(|fields| Some(format!("socket:[{}]", fields.get(9)?))).collect()
}

fn holds_one(folder: &Path, sockets: &[String]) -> bool {
    let Ok(files) = std::fs::read_dir(folder) else { return false };
    let mut links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    links.any(|link| link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket == link)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_while_it_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(pid_on_port(port), Some(std::process::id()));
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        let table = "sl local rem st\n\
            0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 11 1\n\
            1: 0100007F:1F90 0100007F:AAAA 01 0:0 0:0 0 0 0 12 1\n\
            2: 0100007F:1F91 00000000:0000 0A 0:0 0:0 0 0 0 13 1\n";
        assert_eq!(sockets(table, 8080), ["socket:[11]"]);
    }
}
