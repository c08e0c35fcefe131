//! Pseudo-terminals: both ends, reading with MIN and TIME, readiness, hang-up, packet mode, settings
//! (pty(7), ioctl_tty(2), termios(3)).
use abi::{
    Ended, c, check, clock_ns, close, fork, handle, isolated, must, open,
    pty::{self, Pty, ioctl, ioctl_number, poll},
    read, stat, wait, write, zeroed,
};
use libc::*;
use std::sync::atomic::{AtomicI32, Ordering};

const IN: i16 = POLLIN;
const MS: u64 = 1_000_000;

fn set_nonblocking(fd: i32) {
    // SAFETY: plain numbers.
    must(unsafe { fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) });
}

#[test]
fn a_slave_has_a_name_a_number_and_belongs_to_its_maker() {
    isolated(|| {
        let master = pty::master(0);
        let number = pty::number(master);
        let status = stat(pty::path(master)).expect("the slave's name");
        assert_eq!(status.st_mode & S_IFMT, S_IFCHR);
        assert_eq!((major(status.st_rdev), minor(status.st_rdev)), (136, number));
        assert_eq!(status.st_uid, 0);
        close(master);
        assert_eq!(stat(format!("/dev/pts/{number}")).map(|_| ()), Err(ENOENT));
    });
}

#[test]
fn a_slave_s_name_leads_back_from_its_descriptor() {
    isolated(|| {
        let pty = Pty::new();
        let mut name = [0u8; 64];
        // SAFETY: room for the name.
        assert_eq!(unsafe { ttyname_r(pty.slave, name.as_mut_ptr().cast(), name.len()) }, 0);
        let name = std::ffi::CStr::from_bytes_until_nul(&name).expect("a string");
        assert_eq!(name.to_str(), Ok(pty::path(pty.master).as_str()));
        for fd in [pty.slave, pty.master] {
            // SAFETY: a descriptor.
            assert_eq!(unsafe { isatty(fd) }, 1);
        }
    });
}

#[test]
fn a_locked_slave_cannot_be_opened() {
    isolated(|| {
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY, 0).expect("a master");
        let mut locked = 0;
        ioctl(master, TIOCGPTLCK, &mut locked).expect("TIOCGPTLCK");
        assert_eq!(locked, 1);
        let path = pty::path(master);
        assert_eq!(open(&path, O_RDWR | O_NOCTTY, 0), Err(EIO));
        ioctl(master, TIOCSPTLCK, &mut 0).expect("TIOCSPTLCK");
        assert!(open(&path, O_RDWR | O_NOCTTY, 0).is_ok());
    });
}

#[test]
fn the_peer_of_a_master_can_be_had_without_its_name() {
    isolated(|| {
        let master = pty::master(0);
        let flags = (O_RDWR | O_NOCTTY | O_CLOEXEC) as c_ulong;
        let slave = ioctl_number(master, TIOCGPTPEER, flags).expect("TIOCGPTPEER") as i32;
        assert_eq!(write(slave, b"x"), Ok(1));
        assert_eq!(read(master, 10).as_deref(), Ok(&b"x"[..]));
        // SAFETY: plain numbers.
        assert_eq!(must(unsafe { fcntl(slave, F_GETFD) }), i64::from(FD_CLOEXEC));
        let mut number = 0;
        assert_eq!(ioctl(slave, TIOCGPTN, &mut number), Err(ENOTTY));
    });
}

#[test]
fn the_lowest_free_number_is_given() {
    isolated(|| {
        let first = pty::master(0);
        let second = pty::master(0);
        let number = pty::number(first);
        assert!(pty::number(second) > number);
        close(first);
        let third = pty::master(0);
        assert_eq!(pty::number(third), number);
    });
}

#[test]
fn what_is_typed_before_the_slave_is_opened_is_there_later() {
    isolated(|| {
        let master = pty::master(0);
        assert_eq!(write(master, b"early\n"), Ok(6));
        let slave = open(pty::path(master), O_RDWR | O_NOCTTY, 0).expect("the slave");
        assert_eq!(read(slave, 100).as_deref(), Ok(&b"early\n"[..]));
    });
}

#[test]
fn a_closed_slave_is_an_error_to_the_master_until_it_is_opened_again() {
    isolated(|| {
        let pty = Pty::new();
        assert_eq!(write(pty.slave, b"last"), Ok(4));
        close(pty.slave);
        assert_eq!(poll(pty.master, IN, 1000), POLLIN | POLLHUP);
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"last"[..]));
        assert_eq!(poll(pty.master, IN, 1000), POLLHUP);
        assert_eq!(read(pty.master, 100), Err(EIO));
        let again = open(pty::path(pty.master), O_RDWR | O_NOCTTY, 0).expect("the slave");
        assert_eq!(poll(pty.master, IN, 0), 0);
        assert_eq!(write(again, b"x"), Ok(1));
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"x"[..]));
    });
}

#[test]
fn a_closed_master_is_the_end_for_the_slave() {
    isolated(|| {
        let pty = Pty::new();
        let path = format!("/proc/self/fd/{}", pty.slave);
        pty.type_bytes(b"unread\n");
        pty.wait_readable();
        close(pty.master);
        assert_eq!(poll(pty.slave, IN | POLLOUT, 1000), POLLIN | POLLOUT | POLLERR | POLLHUP);
        assert_eq!(read(pty.slave, 100).as_deref(), Ok(&b""[..]));
        assert_eq!(write(pty.slave, b"x"), Err(EIO));
        let mut window = [0u16; 4];
        assert_eq!(ioctl(pty.slave, TIOCGWINSZ, &mut window), Err(EIO));
        assert_eq!(ioctl(pty.slave, TIOCSPGRP, &mut 1), Err(ENOTTY));
        assert!(open(path, O_RDWR | O_NOCTTY, 0).is_err());
    });
}

#[test]
fn a_reader_that_waits_learns_of_the_hang_up() {
    isolated(|| {
        let pty = Pty::new();
        let child = fork(|| {
            close(pty.master);
            // Linux wakes readers before it hangs up: they may see either first.
            let result = read(pty.slave, 1);
            assert!(result == Err(EIO) || result == Ok(Vec::new()), "{result:?}");
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        close(pty.master);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_writer_waits_for_the_master_and_nothing_is_lost() {
    isolated(|| {
        const BYTES: usize = 200_000;
        let pty = Pty::raw();
        let child = fork(|| {
            let data: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
            let mut rest = data.as_slice();
            while !rest.is_empty() {
                let count = write(pty.slave, rest).expect("writing");
                rest = &rest[count..];
            }
        });
        let mut received = Vec::new();
        while received.len() < BYTES {
            received.extend(read(pty.master, 3000).expect("reading"));
        }
        assert!(received.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_typist_waits_for_the_reader_and_nothing_is_lost() {
    isolated(|| {
        const BYTES: usize = 100_000;
        let pty = Pty::raw();
        let child = fork(|| {
            let data: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
            let mut rest = data.as_slice();
            while !rest.is_empty() {
                let count = write(pty.master, rest).expect("typing");
                rest = &rest[count..];
            }
        });
        let mut received = Vec::new();
        while received.len() < BYTES {
            received.extend(read(pty.slave, 3000).expect("reading"));
        }
        assert!(received.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn without_blocking_a_full_terminal_is_eagain_and_not_ready() {
    isolated(|| {
        let pty = Pty::raw();
        for (from, to) in [(pty.slave, pty.master), (pty.master, pty.slave)] {
            set_nonblocking(from);
            assert_eq!(poll(from, POLLOUT, 0), POLLOUT);
            let mut sent = 0;
            // The discipline may still be passing on the written bytes.
            for _ in 0..20 {
                while let Ok(count) = write(from, &[b'x'; 1000]) {
                    sent += count;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert_eq!(write(from, b"x"), Err(EAGAIN));
            assert_eq!(poll(from, POLLOUT, 0), 0);
            assert!((4096..200_000).contains(&sent));
            let mut received = 0;
            while received < sent {
                received += read(to, 4096).expect("reading").len();
            }
            assert_eq!(poll(from, POLLOUT, 1000), POLLOUT);
        }
    });
}

#[test]
fn a_blocked_write_to_a_terminal_is_interrupted() {
    extern "C" fn nothing(_: i32) {}
    isolated(|| {
        let pty = Pty::raw();
        handle(SIGALRM, nothing, 0);
        set_nonblocking(pty.slave);
        while write(pty.slave, &[b'x'; 1000]).is_ok() {}
        std::thread::sleep(std::time::Duration::from_millis(20));
        while write(pty.slave, &[b'x'; 1000]).is_ok() {}
        // SAFETY: plain numbers.
        must(unsafe { fcntl(pty.slave, F_SETFL, O_RDWR) });
        // SAFETY: as above.
        unsafe { alarm(1) };
        let result = write(pty.slave, &[b'x'; 100_000]);
        assert!(matches!(result, Err(EINTR) | Ok(1..100_000)), "{result:?}");
    });
}

/// Opens a raw terminal with these MIN and TIME.
fn timed(minimum: u8, tenths: u8) -> Pty {
    let pty = Pty::raw();
    pty::set(pty.slave, |s| {
        s.c_cc[VMIN] = minimum;
        s.c_cc[VTIME] = tenths;
    });
    pty
}

#[test]
fn minimum_without_time_waits_for_that_many_bytes_and_so_does_poll() {
    isolated(|| {
        let pty = timed(3, 0);
        pty.type_bytes(b"ab");
        assert_eq!(poll(pty.slave, IN, 60), 0);
        let child = fork(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            pty.type_bytes(b"cd");
        });
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b"abcd"[..]));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn time_without_minimum_is_a_read_with_a_time_limit() {
    isolated(|| {
        let pty = timed(0, 2);
        let before = clock_ns(CLOCK_MONOTONIC);
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b""[..]));
        let passed = clock_ns(CLOCK_MONOTONIC) - before;
        assert!(passed > 150 * MS, "{passed}");
        pty.type_bytes(b"x");
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b"x"[..]));
    });
}

#[test]
fn time_with_minimum_counts_between_bytes() {
    isolated(|| {
        let pty = timed(10, 1);
        pty.type_bytes(b"ab");
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b"ab"[..]));
        // The time begins with the first byte; poll ignores TIME.
        pty.type_bytes(b"c");
        assert_eq!(poll(pty.slave, IN, 1000), POLLIN);
    });
}

#[test]
fn neither_minimum_nor_time_reads_what_is_there() {
    isolated(|| {
        let pty = timed(0, 0);
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b""[..]));
        set_nonblocking(pty.slave);
        assert_eq!(read(pty.slave, 10).as_deref(), Ok(&b""[..]));
        pty::set(pty.slave, |s| s.c_cc[VMIN] = 1);
        assert_eq!(read(pty.slave, 10), Err(EAGAIN));
    });
}

#[test]
fn the_window_s_size_is_one_for_both_ends() {
    isolated(|| {
        let pty = Pty::new();
        let mut size = [0u16; 4];
        ioctl(pty.slave, TIOCGWINSZ, &mut size).expect("TIOCGWINSZ");
        assert_eq!(size, [0; 4]);
        ioctl(pty.master, TIOCSWINSZ, &mut [30u16, 100, 5, 6]).expect("TIOCSWINSZ");
        ioctl(pty.slave, TIOCGWINSZ, &mut size).expect("TIOCGWINSZ");
        assert_eq!(size, [30, 100, 5, 6]);
    });
}

#[test]
fn a_fresh_pty_has_linux_s_settings_and_the_master_shows_them() {
    isolated(|| {
        let pty = Pty::new();
        for fd in [pty.slave, pty.master] {
            let settings = pty::settings(fd);
            assert_eq!(settings.c_iflag, ICRNL | IXON);
            assert_eq!(settings.c_oflag, OPOST | ONLCR);
            assert_eq!(settings.c_cflag, B38400 | CS8 | CREAD);
            let local = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN;
            assert_eq!(settings.c_lflag, local);
            let characters = [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0];
            assert_eq!(settings.c_cc[..17], characters);
        }
        pty::set(pty.master, |s| s.c_lflag &= !ECHO);
        assert_eq!(pty::settings(pty.slave).c_lflag & ECHO, 0);
    });
}

#[test]
fn a_pty_has_always_eight_bits_without_parity() {
    isolated(|| {
        let pty = Pty::with(|s| {
            s.c_cflag &= !CSIZE;
            s.c_cflag |= CS7 | PARENB;
        });
        assert_eq!(pty::settings(pty.slave).c_cflag & (CSIZE | PARENB), CS8);
    });
}

#[test]
fn the_old_layout_changes_the_low_halves_only() {
    const TCGETA: Ioctl = 0x5405;
    const TCSETA: Ioctl = 0x5406;
    isolated(|| {
        let pty = Pty::with(|s| s.c_iflag |= 0x4000);
        let mut old = [0u16; 9];
        ioctl(pty.slave, TCGETA, &mut old).expect("TCGETA");
        assert_eq!(u32::from(old[0]), ICRNL | IXON | 0x4000);
        assert_eq!(old[4].to_le_bytes(), [0, 3]);
        old[3] &= !(ECHO as u16);
        ioctl(pty.slave, TCSETA, &mut old).expect("TCSETA");
        let new = pty::settings(pty.slave);
        assert_eq!((new.c_lflag & ECHO, new.c_cc[VSUSP], new.c_cc[VREPRINT]), (0, 26, 18));
    });
}

#[test]
fn speeds_follow_their_codes_or_are_numbers() {
    const TCGETS2: Ioctl = 0x802c_542a_u32 as Ioctl;
    const TCSETS2: Ioctl = 0x402c_542b_u32 as Ioctl;
    const BOTHER: u32 = 0o010000;
    isolated(|| {
        let pty = Pty::new();
        let mut words = [0u32; 11];
        ioctl(pty.slave, TCGETS2, &mut words).expect("TCGETS2");
        assert_eq!(words[9..], [38400, 38400]);
        words[2] = words[2] & !CBAUD | B115200;
        ioctl(pty.slave, TCSETS2, &mut words).expect("TCSETS2");
        ioctl(pty.slave, TCGETS2, &mut words).expect("TCGETS2");
        assert_eq!(words[9..], [115_200, 115_200]);
        words[2] = words[2] & !CBAUD | BOTHER;
        words[10] = 12345;
        ioctl(pty.slave, TCSETS2, &mut words).expect("TCSETS2");
        ioctl(pty.slave, TCGETS2, &mut words).expect("TCGETS2");
        assert_eq!(words[10], 12345);
    });
}

#[test]
fn locked_settings_stay() {
    const TIOCSLCKTRMIOS: Ioctl = 0x5457;
    isolated(|| {
        let pty = Pty::new();
        // SAFETY: plain numbers.
        let mut locked: termios = unsafe { zeroed() };
        locked.c_lflag = ECHO;
        locked.c_cc[VINTR] = 1;
        ioctl(pty.slave, TIOCSLCKTRMIOS, &mut locked).expect("TIOCSLCKTRMIOS");
        pty::set(pty.slave, |s| {
            s.c_lflag = 0;
            s.c_cc[VINTR] = 9;
            s.c_cc[VQUIT] = 9;
        });
        let new = pty::settings(pty.slave);
        assert_eq!((new.c_lflag, new.c_cc[VINTR], new.c_cc[VQUIT]), (ECHO, 3, 9));
    });
}

#[test]
fn counts_and_flushes_see_what_was_not_read() {
    isolated(|| {
        let pty = Pty::new();
        let count = |fd| {
            let mut count = 0;
            ioctl(fd, FIONREAD, &mut count).expect("FIONREAD");
            count
        };
        pty.type_bytes(b"ab\ncd");
        assert_eq!(pty.screen(), r"ab\r\ncd");
        assert_eq!(count(pty.slave), 3);
        // SAFETY: the descriptor is a terminal.
        must(unsafe { tcflush(pty.slave, TCIFLUSH) });
        assert_eq!((count(pty.slave), poll(pty.slave, IN, 0)), (0, 0));
        assert_eq!(write(pty.slave, b"shown"), Ok(5));
        assert_eq!(poll(pty.master, IN, 1000), POLLIN);
        assert_eq!(count(pty.master), 5);
        // SAFETY: as above.
        must(unsafe { tcflush(pty.master, TCIFLUSH) });
        assert_eq!(count(pty.master), 0);
        assert_eq!(ioctl_number(pty.slave, TCFLSH, 7), Err(EINVAL));
        // SAFETY: as above.
        must(unsafe { tcdrain(pty.slave) });
        // SAFETY: as above.
        must(unsafe { tcsendbreak(pty.slave, 0) });
    });
}

#[test]
fn packet_mode_tells_of_flow_and_flushes() {
    isolated(|| {
        let pty = Pty::new();
        ioctl(pty.master, TIOCPKT, &mut 1).expect("TIOCPKT");
        assert_eq!(write(pty.slave, b"data"), Ok(4));
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"\0data"[..]));
        // SAFETY: the descriptor is a terminal.
        must(unsafe { tcflow(pty.slave, TCOOFF) });
        assert_eq!(poll(pty.master, IN | POLLPRI, 1000), POLLIN | POLLPRI);
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"\x04"[..]));
        // SAFETY: as above.
        must(unsafe { tcflow(pty.slave, TCOON) });
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"\x08"[..]));
        // SAFETY: as above.
        must(unsafe { tcflush(pty.slave, TCIOFLUSH) });
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"\x03"[..]));
        pty::set(pty.slave, |s| s.c_iflag &= !IXON);
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"\x10"[..]));
        pty::set(pty.slave, |s| s.c_iflag |= IXON);
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"\x20"[..]));
        ioctl(pty.master, TIOCPKT, &mut 0).expect("TIOCPKT");
        assert_eq!(write(pty.slave, b"data"), Ok(4));
        assert_eq!(read(pty.master, 100).as_deref(), Ok(&b"data"[..]));
    });
}

#[test]
fn a_terminal_in_exclusive_use_is_the_superuser_s_only() {
    isolated(|| {
        let pty = Pty::new();
        let path = pty::path(pty.master);
        // SAFETY: a NUL-terminated path.
        must(unsafe { chmod(c(&path).as_ptr(), 0o666) });
        must(ioctl_number(pty.slave, TIOCEXCL, 0).expect("TIOCEXCL"));
        let try_as_user = || {
            // SAFETY: plain numbers.
            must(unsafe { setresuid(1000, 1000, 1000) });
            open(&path, O_RDWR | O_NOCTTY, 0).err()
        };
        assert_eq!(wait(fork(|| assert_eq!(try_as_user(), Some(EBUSY)))), Ended::Exited(0));
        assert!(open(&path, O_RDWR | O_NOCTTY, 0).is_ok());
        must(ioctl_number(pty.slave, TIOCNXCL, 0).expect("TIOCNXCL"));
        assert_eq!(wait(fork(|| assert_eq!(try_as_user(), None))), Ended::Exited(0));
    });
}

#[test]
fn typing_for_others_needs_the_terminal_or_the_right() {
    isolated(|| {
        let pty = Pty::with(|s| s.c_lflag &= !ECHO);
        for byte in *b"hi\n" {
            ioctl(pty.slave, TIOCSTI, &mut byte.clone()).expect("TIOCSTI");
        }
        pty.wait_readable();
        assert_eq!(pty.line().as_deref(), Some(r"hi\n"));
        let child = fork(|| {
            // SAFETY: plain numbers.
            must(unsafe { setresuid(1000, 1000, 1000) });
            assert_eq!(ioctl(pty.slave, TIOCSTI, &mut b'x'), Err(EPERM));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn epoll_and_select_see_both_ends() {
    isolated(|| {
        let pty = Pty::new();
        // SAFETY: plain numbers.
        let epoll = must(unsafe { epoll_create1(0) }) as i32;
        for fd in [pty.master, pty.slave] {
            let mut event = epoll_event { events: (EPOLLIN | EPOLLET) as u32, u64: fd as u64 };
            // SAFETY: a whole event.
            must(unsafe { epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &mut event) });
        }
        let next = || {
            let mut event = epoll_event { events: 0, u64: 0 };
            // SAFETY: room for one event.
            let count = must(unsafe { epoll_wait(epoll, &mut event, 1, 1000) });
            (count == 1).then_some(event.u64 as i32)
        };
        assert_eq!(write(pty.slave, b"x"), Ok(1));
        assert_eq!(next(), Some(pty.master));
        pty::set(pty.slave, |s| s.c_lflag &= !ECHO);
        pty.type_bytes(b"y\n");
        let seen = [next(), next()];
        assert!(seen.contains(&Some(pty.slave)), "{seen:?}");
    });
}

static WINDOW_SIGNALS: AtomicI32 = AtomicI32::new(0);

extern "C" fn count_window(_: i32) {
    WINDOW_SIGNALS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn another_window_s_size_is_told_to_the_foreground_once() {
    isolated(|| {
        let pty = Pty::new();
        // SAFETY: plain numbers.
        must(unsafe { setsid() });
        must(ioctl_number(pty.slave, TIOCSCTTY, 0).expect("TIOCSCTTY"));
        handle(SIGWINCH, count_window, SA_RESTART);
        for _ in 0..2 {
            ioctl(pty.master, TIOCSWINSZ, &mut [24u16, 80, 0, 0]).expect("TIOCSWINSZ");
        }
        assert_eq!(WINDOW_SIGNALS.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_mounted_devpts_is_a_world_of_its_own() {
    isolated(|| {
        // SAFETY: plain numbers; the mounts of the test's process only.
        if check(unsafe { unshare(CLONE_NEWNS) }).is_ok() {
            // SAFETY: NUL-terminated strings.
            let private = unsafe {
                mount(
                    c"".as_ptr(),
                    c"/".as_ptr(),
                    c"".as_ptr(),
                    MS_REC | MS_PRIVATE,
                    std::ptr::null(),
                )
            };
            must(private);
        }
        let scratch = abi::Scratch::new();
        let at = c(scratch.path(""));
        // SAFETY: NUL-terminated strings.
        must(unsafe {
            mount(
                c"devpts".as_ptr(),
                at.as_ptr(),
                c"devpts".as_ptr(),
                0,
                c"newinstance,ptmxmode=0666,mode=0620,gid=5".as_ptr().cast(),
            )
        });
        let master = open(scratch.path("ptmx"), O_RDWR | O_NOCTTY, 0).expect("ptmx");
        assert_eq!(pty::number(master), 0);
        let status = stat(scratch.path("0")).expect("the slave");
        assert_eq!((status.st_mode & 0o7777, status.st_gid), (0o620, 5));
        ioctl(master, TIOCSPTLCK, &mut 0).expect("TIOCSPTLCK");
        let slave = open(scratch.path("0"), O_RDWR | O_NOCTTY, 0).expect("the slave");
        assert_eq!(write(slave, b"x"), Ok(1));
        assert_eq!(read(master, 10).as_deref(), Ok(&b"x"[..]));
        close(slave);
        close(master);
        // SAFETY: a NUL-terminated path.
        must(unsafe { umount2(at.as_ptr(), 0) });
    });
}
