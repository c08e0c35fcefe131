#!/bin/sh
# `disk.sh fill|hog|sums|look`: works on /dev/vdb and prints what is there. /dev/vdc is a tar archive.
# Under Linux the mode comes on the kernel's command line.
mode=${1:-$(sed -n 's/.*skerry.mode=\([a-z]*\).*/\1/p' /proc/cmdline)}
mount=/tmp/disk

fail() {
    echo "FAILED: $*"
    exit 1
}

fill() {
    mkdir tree && tar xf /dev/vdc -C tree || fail untar
    tar cf - -C tree . | tar tf - | wc -l

    mkdir many && cd many || fail many
    seq 50000 | xargs touch || fail create
    [ "$(ls | wc -l)" = 50000 ] || fail "50000 files, found $(ls | wc -l)"
    cd .. && rm -r many || fail remove
    echo "50000 files made and removed"

    mkdir names && cd names || fail names
    seq 100000 | xargs touch || fail touch
    for name in 1 500 99999 100000; do [ -f $name ] || fail "name $name"; done
    cd ..
    echo "100000 names"

    for at in 0 1000 2047 3000 4095; do
        dd if=/dev/vdc of=holes bs=1M count=1 skip=$((at % 100)) seek=$at conv=notrunc 2>/dev/null ||
            fail "holes at $at"
    done
    echo "a file of $(stat -c %s holes) bytes with holes"

    writers=
    for writer in 1 2 3 4 5 6 7 8; do
        dd if=/dev/vdc of=writer$writer bs=64k skip=$((writer * 100)) count=100 2>/dev/null &
        writers="$writers $!"
    done
    # Not for the hog, which never ends.
    for writer in $writers; do wait $writer || fail writers; done
    echo "8 writers"

    /abi/fsx fsx 100000 1 || fail fsx on ext4
    /abi/fsx /tmp/fsx 100000 2 || fail fsx on tmpfs
    sync
}

sums() {
    echo "== sums"
    find tree holes writer* fsx -type f | sort | xargs md5sum | md5sum
    find tree holes writer* fsx | sort | xargs stat -c '%n %a %u %g %s %h %F' | md5sum
    find tree -type f | sort | xargs stat -c '%n %Y' | md5sum
    ls names | sort -n | md5sum
    echo "== end"
}

mkdir -p $mount && mount -t ext4 /dev/vdb $mount && cd $mount || fail mount
case $mode in
hog)
    (while :; do tail /dev/zero > /dev/null 2>&1; done) &
    hog=$!
    fill
    kill -9 $hog
    wait $hog
    killall tail 2>/dev/null
    ;;
fill) fill ;;
look)
    # Once what `hog` does many times, so that what is made at a first use is there.
    seq 20 | xargs touch /tmp/fsx && dd if=/dev/vdc of=look bs=64k count=1 2>/dev/null || fail look
    tail /dev/zero >/dev/null 2>&1
    # The files of /proc about a process that lives on are kept with it.
    killall tail 2>/dev/null
    find . -type f | sort | xargs stat | md5sum >/dev/null
    rm look /tmp/fsx $(seq 20)
    ;;
esac
[ $mode = look ] || sums
cd /
umount $mount || fail umount
rm -f /tmp/fsx && rmdir $mount
