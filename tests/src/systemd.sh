# systemd.sh WORK FLASH DEPLOY: runs systemd as process 1 of namespaces of its own. Its root is this machine's, under a layer that
# holds all changes. There, FLASH is installed with the files of DEPLOY, and no other unit is known.
set -eu
work=$1
mount --make-rprivate /
mount -t tmpfs tmpfs "$work" -o mode=755
mkdir "$work/upper" "$work/work" "$work/root" "$work/cgroup"
mount -t cgroup2 cgroup2 "$work/cgroup"
group=$work/cgroup/flash-test-$$
mkdir "$group"
echo $$ > "$group/cgroup.procs"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
unshare --fork --kill-child --pid --mount --cgroup --uts --ipc --net sh -s "$work/root" "$2" "$3" <<'INSIDE' || true
set -eu
root=$1 flash=$2 deploy=$3
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run tmp var/tmp; do mount -t tmpfs tmpfs "$root/$folder" -o mode=1777; done
chmod 755 "$root/run"
mount --rbind /dev "$root/dev"
for folder in "$root/etc/systemd/system" "$root/usr/lib/systemd/system"; do rm -rf "$folder"; mkdir -p "$folder"; done
for target in basic multi-user network-online shutdown sockets sysinit umount; do
	printf '[Unit]\nDescription=A target\nDefaultDependencies=no\n' > "$root/usr/lib/systemd/system/$target.target"
done
cp "$flash" "$root/usr/bin/flash"
cp "$deploy/flash.service" "$root/usr/lib/systemd/system/flash.service"
cp "$deploy/flash.sysusers" "$root/usr/lib/sysusers.d/flash.conf"
cp "$deploy/flash.tmpfiles" "$root/usr/lib/tmpfiles.d/flash.conf"
install -m 644 "$deploy/flash.logrotate" "$root/etc/logrotate.d/flash"
mkdir -p "$root/etc/flash" "$root/etc/systemd/system/flash.service.d" "$root/srv/www"
cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
systemd-sysusers flash.conf
systemd-tmpfiles --create flash.conf
exec env -i container=flash-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --log-target=null \
	--show-status=no --unit=basic.target </dev/null
INSIDE
echo $$ > "$work/cgroup/cgroup.procs"
find "$group" -depth -type d -exec rmdir {} +
