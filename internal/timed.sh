#!/usr/bin/env bash
# timed.sh NAME COMMAND... runs a stage of make test, and notes in .work/times how long
# it took, and how much of that the processors were in use: 200 % is all of two.
# timed.sh --begin forgets the stages before, which tests have passed, and the files of PostgreSQL;
# timed.sh --end prints the stages.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .work
case $1 in
--begin) : >.work/times; : >.work/passed; rm -rf .work/postgres-*; exit ;;
--end) echo "where the time went:"; cat .work/times; exit ;;
esac
TIMEFORMAT="  $1: %0R s, %P %% of a processor"
shift
exec 3>&2
{ time "$@" 2>&3; } 2>>.work/times
