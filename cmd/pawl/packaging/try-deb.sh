#!/usr/bin/env bash
# try-deb.sh FILE.deb installs the package into an empty root directory, runs pawl there,
# and removes the package. It has to run as root.
set -euo pipefail
deb=$(realpath "$1")
root=$(mktemp -d)
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
mkdir -p "$root"/var/lib/dpkg/{info,updates} "$root"/tmp "$root"/etc "$root"/proc
mount -t proc proc "$root/proc"
touch "$root"/var/lib/dpkg/{status,available}
dpkg --root="$root" --install "$deb"
dpkg --root="$root" --status pawl | grep -q '^Status: install ok installed'
inside() { chroot "$root" /usr/bin/pawl "$@"; }
inside version
# The root directory has no libraries and no other programs, so pawl runs itself.
[ "$(inside run hello -- /usr/bin/pawl version)" = "$(inside version)" ]
# A pawl run inside another one, on another name: pawl ls shows the outer lock.
inside run busy -- /usr/bin/pawl run inner -- /usr/bin/pawl ls | grep busy
for file in usr/share/man/man1/pawl.1.gz usr/share/man/man1/pawl-run.1.gz usr/lib/systemd/system/pawl@.service \
	usr/lib/systemd/system/pawl@.timer usr/lib/tmpfiles.d/pawl.conf usr/share/bash-completion/completions/pawl \
	usr/share/zsh/vendor-completions/_pawl usr/share/fish/vendor_completions.d/pawl.fish usr/share/doc/pawl/copyright \
	usr/share/doc/pawl/examples/cron; do
	[ -s "$root/$file" ] || { echo "the package has no /$file" >&2; exit 1; }
done
if command -v man >/dev/null; then
	man --local-file "$root/usr/share/man/man1/pawl-run.1.gz" | grep -q leftovers
fi
bash -c "source '$root/usr/share/bash-completion/completions/pawl' && complete -p pawl" >/dev/null
dpkg --root="$root" --remove pawl
[ ! -e "$root/usr/bin/pawl" ]
echo "$(basename "$deb") installs, runs and goes"
