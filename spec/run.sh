#!/usr/bin/env bash
# run.sh [--quick|--full] checks the model exhaustively, with spin, and each variant
# that must be wrong, and says states and verdicts. It fails if a verdict is not the
# expected one. --quick leaves out what takes long; --full adds a node that forgets, and
# all faults at once, which takes some minutes and 2 GiB.
set -euo pipefail
model=$(cd "$(dirname "$0")" && pwd)/redlock.pml
which=${1-}

# name | expected verdict | only or also with | flags; -DBFS finds the
# shortest way, -DT_REVERSE goes the other way round, and -DT_RAND and -DP_RAND any way, the same each time.
# What takes longest comes first. -DMANY says that there are millions of states: for less, gcc would take
# longer to optimize than the search does.
variants='
a writer and a reader, downgrade        | holds       | quick | -DREADERS=1 -DCRASHES=0 -DEXTENSIONS=0 -DMANY
acquisition, extension, tokens, healing | holds       | quick | -DCHECK_HEALING -DCRASHES=0 -DMANY
the same, a node forgets                | holds       | full  | -DEXTENSIONS=0 -DMANY
clock read once for two rounds          | old token   |       | -DOLD_CLOCK -DEXTENSIONS=0 -DT_REVERSE -DMANY
failed attempts stop healing            | cannot heal |       | -DCHECK_HEALING -DFAILED_FLOORS_STAND -DT_REVERSE
everything at once                      | holds       | full  | -DMANY
no quarantine after a restart           | two holders | quick | -DNO_QUARANTINE -DEXTENSIONS=0 -DHOLDERS_ONLY -DBFS -DMANY
quarantine ends too early               | two holders |       | -DSHORT_QUARANTINE -DEXTENSIONS=0 -DHOLDERS_ONLY -DBFS -DMANY
one vote is enough                      | two holders | quick | -DQUORUM=1 -DCRASHES=0 -DBFS
validity counted from the answer        | two holders | quick | -DNO_ELAPSED -DCRASHES=0
extension counted after the deadline    | old token   |       | -DEXTEND_LATE -DCRASHES=0 -DT_REVERSE
tokens by INCR and max                  | old token   | quick | -DINCR -DCRASHES=0 -DEXTENSIONS=0 -DBFS
tokens written back if the lock is mine | old token   | quick | -DWRITE_BACK_IF_MINE -DCRASHES=0 -DEXTENSIONS=0 -DT_REVERSE
a node forgets, clocks do not agree     | old token   |       | -DNO_CLOCK -DEXTENSIONS=0 -DBFS -DMANY
a reader beside a writer                | two holders | quick | -DREADERS=1 -DREADER_BESIDE_WRITER -DCRASHES=0 -DEXTENSIONS=0 -DBFS -DMANY
one vote is enough for a reader         | two holders | quick | -DREADERS=1 -DREADER_QUORUM=1 -DHOLDERS_ONLY -DCRASHES=0 -DEXTENSIONS=0 -DBFS
a writer until nodes know of downgrade  | two holders |       | -DREADERS=1 -DDOWNGRADE_LATE -DCRASHES=0 -DEXTENSIONS=0 -DBFS -DMANY
readers, no quarantine after a restart  | two holders |       | -DREADERS=1 -DNO_QUARANTINE -DHOLDERS_ONLY -DDOWNGRADES=0 -DEXTENSIONS=0 -DBFS -DMANY
a reader may have the token of a writer | old token   | quick | -DREADERS=1 -DREADER_EQUAL -DCRASHES=0 -DEXTENSIONS=0 -DBFS
tokens of readers are not heeded        | old token   |       | -DREADERS=1 -DWRITERS_FLOOR_ONLY -DCRASHES=0 -DEXTENSIONS=0 -DBFS
'

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# verdict FLAGS... prints the number of states and the verdict.
verdict() {
	spin -a "$@" "$model" >spin.out || { cat spin.out >&2; return 1; }
	local optimize=-O0
	[[ "$*" != *-DMANY* ]] || optimize=-O2
	gcc $optimize -w -DSAFETY -DNOFAIR -DNOREDUCE -DNOCOMP $(grep -oE -- '-D(BFS|[TP]_(REVERSE|RAND))' <<<"$*" || true) -DMEMLIM=4000 -o pan pan.c
	# The search looks all over gigabytes: large pages save a tenth of its time.
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./pan -m1000000 -w24 >pan.out 2>&1 || true
	local states said=unknown
	states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' pan.out)
	if grep -q 'assertion violated.*trusted' pan.out; then said='two holders'
	elif grep -q 'assertion violated.*stands' pan.out; then said='cannot heal'
	elif grep -q 'assertion violated.*newest' pan.out; then said='old token'
	elif grep -q 'errors: 0' pan.out && ! grep -qi 'max search depth too small\|not completed\|out of memory' pan.out; then said=holds
	else cat pan.out >&2; fi
	echo "${states:-0} $said"
}

# check NAME WANT FLAGS... works in a directory of its own and leaves the file ok in it.
check() {
	local name=$1 want=$2 begun=$SECONDS states got mark
	shift 2
	read -r states got < <(verdict "$@")
	if [ "$got" = "$want" ]; then touch ok; mark=; else mark="  <-- expected: $want"; fi
	printf '%-40s %10s states %4d s  %s%s\n' "$name" "$states" $((SECONDS - begun)) "$got" "$mark"
}

n=0
while IFS='|' read -r name want when flags; do
	name=$(echo $name) want=$(echo $want) when=$(echo $when)
	[ -n "$name" ] || continue
	case $which:$when in --quick:quick | --full:* | :quick | :) ;; *) continue ;; esac
	while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done # two at a time
	n=$((n + 1))
	mkdir $n
	(trap - EXIT; cd $n && check "$name" "$want" $flags) &
done <<<"$variants"
wait
[ "$(ls -d */ok | wc -l)" = $n ]
