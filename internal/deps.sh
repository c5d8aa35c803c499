#!/usr/bin/env bash
# deps.sh uses apt to install the programs that the tests need and this machine lacks.
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
need cc gcc libc6-dev # for -race
need z3 z3
need cvc5 cvc5
need redis-server redis-server
need redis-cli redis-tools
need etcd etcd-server
need etcdctl etcd-client
need strace strace # to simulate a disk that hangs
need faketime faketime
/usr/bin/python3 -c 'import redis' 2>/dev/null || missing+=(python3-redis)
need java default-jre-headless
[ -e /usr/share/java/zookeeper.jar ] || missing+=(zookeeper)
/usr/bin/python3 -c 'import kazoo' 2>/dev/null || missing+=(python3-kazoo)
need pgbouncer pgbouncer
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing+=(postgresql)
promtool=$(command -v promtool || true)
[ ${#missing[@]} -eq 0 ] && [ -n "$promtool" ] && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	apt-get update -qq
	# The tests start their own PostgreSQL servers. The package would also create and start
	# one, and its installation would fail where that is not possible.
	if [[ " ${missing[*]} " == *" postgresql "* && ! -e /etc/postgresql-common/createcluster.conf ]]; then
		mkdir -p /etc/postgresql-common
		echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
	fi
	# promtool is in a package that would also start a server. So take only the program.
	if [ -z "$promtool" ]; then
		dir=$(mktemp -d)
		(cd "$dir" && apt-get download -qq -o APT::Sandbox::User=root prometheus && dpkg-deb -x prometheus_*.deb .)
		install "$dir/usr/bin/promtool" /usr/local/bin/promtool
		rm -r "$dir"
	fi
	[ ${#missing[@]} -eq 0 ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
else
	[ -n "$promtool" ] || missing+=(prometheus)
	echo "missing for the tests: install ${missing[*]}" >&2
	exit 1
fi
