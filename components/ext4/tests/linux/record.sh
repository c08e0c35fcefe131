#!/bin/sh
# Records what Linux lists of the images of tests/order.rs: NAME.txt for each image, with a part
# `= DIRECTORY` for each directory and a line `position name` for each name but `.` and `..`,
# in getdents64's order (the position is the d_off of the entry before).
# Needs gcc, cpio, qemu-system-x86_64, and build/linux as `./x compare` leaves it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
SKERRY_ORDER_IMAGES=$work cargo test -q -p ext4 --test order images_are_made -- --ignored
cp -r build/linux/initramfs.tree "$work/tree"
cat > "$work/list.c" <<'END'
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
struct entry { uint64_t inode; int64_t next; unsigned short length; char type, name[]; };
int main(int count, char **paths) {
    static char bytes[32768];
    for (int at = 1; at < count; at++) {
        int file = open(paths[at], O_RDONLY);
        uint64_t position = 0;
        long got;
        printf("= %s\n", paths[at]);
        while ((got = syscall(SYS_getdents64, file, bytes, sizeof bytes)) > 0)
            for (long place = 0; place < got;) {
                struct entry *entry = (void *)(bytes + place);
                if (strcmp(entry->name, ".") && strcmp(entry->name, ".."))
                    printf("%016lx %s\n", position, entry->name);
                position = entry->next;
                place += entry->length;
            }
        if (got < 0) puts("failed");
        close(file);
    }
}
END
gcc -O2 -static -o "$work/tree/bin/list" "$work/list.c"
{
    grep -e '^#!' -e insmod build/linux/initramfs.tree/init
    echo 'b=/bin/busybox; $b mount -t devtmpfs devtmpfs /dev; $b stty -F /dev/ttyS1 raw -echo'
    for disk in vda:plain vdb:inline vdc:legacy vdd:linear; do
        echo "\$b mount -t ext4 -o ro /dev/${disk%:*} /root; cd /root
            echo '@ ${disk#*:}' > /dev/ttyS1
            /bin/list d3 d6 d40 d2000 long > /dev/ttyS1; cd /; \$b umount /root"
    done
    echo '$b stty -F /dev/ttyS1 sane; $b poweroff -f'
} > "$work/tree/init"
chmod 755 "$work/tree/init"
(cd "$work/tree" && find . | cpio --quiet -o -H newc > "$work/initramfs")
drives=
for disk in plain inline legacy linear; do
    drives="$drives -drive if=none,id=$disk,format=raw,file=$work/$disk.image"
    drives="$drives -device virtio-blk-pci,drive=$disk"
done
timeout 300 qemu-system-x86_64 -accel tcg -cpu max -machine q35 -m 512 -smp 1 -nodefaults \
    -display none -monitor none -kernel build/linux/vmlinuz -initrd "$work/initramfs" \
    -append 'console=ttyS0 mitigations=off init_on_alloc=0 tsc=reliable quiet panic=-1' \
    -no-reboot -serial "file:$work/log" -serial "file:$work/said" $drives
cat "$work/log" >&2
awk -v to="$here" '/^@ /{file = to "/" $2 ".txt"; printf "" > file; next} {print >> file}' "$work/said"
wc -l "$here"/*.txt
