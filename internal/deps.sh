#!/usr/bin/env bash
# deps.sh installs through apt what the tests need and this machine lacks.
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
need cc gcc libc6-dev # for -race
need spin spin
need redis-server redis-server
need redis-cli redis-tools
need etcd etcd-server
need etcdctl etcd-client
need strace strace # for a disk that hangs
need faketime faketime
/usr/bin/python3 -c 'import redis' 2>/dev/null || missing+=(python3-redis)
need java default-jre-headless
[ -e /usr/share/java/zookeeper.jar ] || missing+=(zookeeper)
/usr/bin/python3 -c 'import kazoo' 2>/dev/null || missing+=(python3-kazoo)
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing+=(postgresql)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	apt-get update -qq
	# The tests start a PostgreSQL of their own. The package would make one that runs
	# for ever, and fail where it cannot be started.
	if [[ " ${missing[*]} " == *" postgresql "* && ! -e /etc/postgresql-common/createcluster.conf ]]; then
		mkdir -p /etc/postgresql-common
		echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
else
	echo "missing for the tests: install ${missing[*]}" >&2
	exit 1
fi
