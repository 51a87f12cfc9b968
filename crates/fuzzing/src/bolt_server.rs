//! Any bytes from a Bolt client, before and after a handshake: no panic, bounded memory, and no service without a
//! log-on.

use hopcache_bolt::server::{Admission, Ending, Inbox, InboxBounds, Kind, Machine, State, Version, frame};

use crate::draw::Draw;

const BOUNDS: InboxBounds = InboxBounds {
    message_bytes_max: 2_048,
    stranger_bytes_max: 512,
    waiting_max: 8,
    waiting_bytes_max: 4_096,
};
const OPENING: [u8; 20] = [0x60, 0x60, 0xB0, 0x17, 0, 0, 1, 0xFF, 0, 8, 8, 5, 0, 3, 4, 4, 0, 0, 0, 0];
const PICK: [u8; 5] = [0, 0, 8, 5, 0];

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let (stage, step, endings) = (draw.byte() % 3, usize::from(draw.byte()) + 1, draw.byte());
    let before: Vec<u8> = match stage {
        0 => Vec::new(),
        1 => OPENING.to_vec(),
        _ => [&OPENING[..], &PICK].concat(),
    };
    let (mut inbox, mut out) = (Inbox::new(Version::NEWEST, BOUNDS), Vec::new());
    inbox.receive(&before, &mut out);
    let mut machine: Option<Machine> = None;
    let mut logged_on = false;
    for (at, part) in draw.0.chunks(step).enumerate() {
        if inbox.has_room() {
            inbox.receive(part, &mut out);
        }
        let held_max = BOUNDS.waiting_bytes_max + 2 * BOUNDS.message_bytes_max + OPENING.len() + step;
        assert!(inbox.held_bytes() <= held_max, "{} bytes are held", inbox.held_bytes());
        assert!(out.len() <= 32, "a handshake of {} bytes", out.len());
        while let Ok(Some(received)) = inbox.next_request() {
            let version = inbox.version().expect("requests come behind a handshake");
            let machine = machine.get_or_insert_with(|| Machine::new(version));
            if let Ok(request) = received.read() {
                assert_eq!(request.kind(), received.kind, "the first bytes say the kind");
            }
            serve(machine, received.kind, usize::from(endings) + at, &mut logged_on);
            inbox.set_stranger(!logged_on);
        }
    }
}

fn serve(machine: &mut Machine, kind: Kind, dice: usize, logged_on: &mut bool) {
    let was_defunct = machine.state() == State::Defunct;
    if dice.is_multiple_of(7) {
        machine.interrupt();
    }
    if machine.admit(kind) == Admission::Handle {
        let ending =
            if dice.is_multiple_of(5) { Ending::Failure } else { Ending::Success { open_results: dice % 3 } };
        machine.ended(kind, ending);
        match (kind, ending) {
            (Kind::Logon, Ending::Success { .. }) => *logged_on = true,
            (Kind::Hello, Ending::Success { .. }) if machine.state() == State::Ready => *logged_on = true,
            (Kind::Logoff, Ending::Success { .. }) => *logged_on = false,
            _ => {}
        }
    }
    let state = machine.state();
    assert!(!was_defunct || state == State::Defunct, "a connection that had ended is in {state:?}");
    let serves = matches!(state, State::Ready | State::Streaming | State::TxReady | State::TxStreaming);
    assert!(!serves || *logged_on, "{state:?} without a log-on");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages: [&[u8]; 12] = [
        &[0xB1, 0x01, 0xA0],
        &[0xB1, 0x6A, 0xA1, 0x81, b's', 0x84, b'n', b'o', b'n', b'e'],
        &[0xB1, 0x54, 0x01],
        &[0xB3, 0x66, 0xA0, 0x90, 0xA0],
        &[
            0xB3, 0x10, 0x88, b'R', b'E', b'T', b'U', b'R', b'N', b' ', b'1', 0xA1, 0x81, b'a', 0x91, 0x01,
            0xA0,
        ],
        &[0xB1, 0x3F, 0xA2, 0x81, b'n', 0xFF, 0x83, b'q', b'i', b'd', 0xFF],
        &[0xB1, 0x2F, 0xA1, 0x81, b'n', 0x05],
        &[0xB1, 0x11, 0xA0],
        &[0xB0, 0x12],
        &[0xB0, 0x13],
        &[0xB0, 0x0F],
        &[0xB0, 0x02],
    ];
    let mut all = Vec::new();
    messages.iter().for_each(|message| frame(&mut all, message));
    let mut seeds = vec![
        [&[0, 40, 1][..], &OPENING, &PICK, &all].concat(),
        [&[1, 200, 2][..], &PICK, &all].concat(),
        [&[0, 9, 1][..], b"GET / HTTP/1.1\r\n\r\n"].concat(),
        vec![2, 50, 1, 0xFF, 0xFF, 0xB1, 0x10],
    ];
    for message in messages {
        let mut framed = vec![2, 255, 1];
        frame(&mut framed, message);
        seeds.push(framed);
    }
    seeds
}
