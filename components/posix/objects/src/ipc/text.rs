//! `/proc/sysvipc`: one line for each object, in Linux's format.
use super::{message, segment, semaphore};
use alloc::{format, string::String, vec::Vec};
use core::fmt::Write;
use memory::segments::Segment as _;
use vfs::Principal;

/// Returns the content of `shm` for `reader`.
pub fn segments(reader: &dyn Principal) -> Vec<u8> {
    let mut text = String::from(
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
         atime      dtime      ctime                   rss                  swap\n",
    );
    for segment in segment::registry().shown_to(reader) {
        text.push_str(&segment_line(&segment));
    }
    text.into_bytes()
}

fn segment_line(segment: &segment::SharedSegment) -> String {
    let raw = segment.report();
    let [attached, detached, changed] = raw.times;
    let [creator, last] = raw.processes;
    let resident = segment.memory().resident_pages() * memory::PAGE;
    let mut line = format!("{:>10} {:>10}  ", raw.permission.key(), segment.id());
    let _ =
        write!(line, "{:>4o} {:>21} {creator:>5} {last:>5}  ", raw.permission.mode(), raw.bytes);
    let _ = write!(line, "{:>5} {} ", raw.attaches, raw.permission.owners());
    let _ = writeln!(line, "{attached:>10} {detached:>10} {changed:>10} {resident:>21} {:>21}", 0);
    line
}

/// Returns the content of `sem` for `reader`.
pub fn semaphores(reader: &dyn Principal) -> Vec<u8> {
    let mut text = String::from(
        "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
    );
    for set in semaphore::registry().shown_to(reader) {
        let raw = set.report();
        let mut line = format!("{:>10} {:>10}  ", raw.permission.key(), set.id());
        let _ = write!(line, "{:>4o} {:>10} ", raw.permission.mode(), raw.count);
        let _ = write!(line, "{} ", raw.permission.owners());
        let _ = writeln!(text, "{line}{:>10} {:>10}", raw.operated_s, raw.changed_s);
    }
    text.into_bytes()
}

/// Returns the content of `msg` for `reader`.
pub fn messages(reader: &dyn Principal) -> Vec<u8> {
    let mut text = String::from(
        "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      \
         stime      rtime      ctime\n",
    );
    for queue in message::registry().shown_to(reader) {
        let raw = queue.report();
        let [sent, received, changed] = raw.times;
        let [sender, receiver] = raw.processes;
        let mut line = format!("{:>10} {:>10}  ", raw.permission.key(), queue.id());
        let _ =
            write!(line, "{:>4o}  {:>10} {:>10} ", raw.permission.mode(), raw.bytes, raw.messages);
        let _ = write!(line, "{sender:>5} {receiver:>5} {} ", raw.permission.owners());
        let _ = writeln!(text, "{line}{sent:>10} {received:>10} {changed:>10}");
    }
    text.into_bytes()
}
