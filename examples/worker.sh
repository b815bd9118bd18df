#!/usr/bin/env bash
# A Signalbox worker in shell: bash and curl, nothing else.
#
#     npm start                                                          # or: signalbox serve
#     examples/worker.sh hello sh -c 'echo "job $JOB_ID: $(cat)"'        # works on jobs of the kind "hello"
#
# For every job of that kind it runs the command, with the job as JSON on its standard input and its id in JOB_ID.
# Exit code 0 completes the job; any other fails it, and it is tried again after a while until its attempts are used up.
# The command must bear being run twice for one job: a worker may die after the work and before its ack.
#
# SIGTERM or Ctrl+C stops it: the command gets SIGTERM, and a job it did not finish is handed back for another worker, at
# no cost to the job. SIGNALBOX_URL says where the server is, SIGNALBOX_TOKEN holds a token where the server wants one.
set -u

if (($# < 2)); then
  echo 'usage: worker.sh KIND COMMAND [ARGUMENT...]' >&2
  exit 2
fi
kind=$1
shift

url=${SIGNALBOX_URL:-http://127.0.0.1:7420}
queue=${SIGNALBOX_QUEUE:-default}
worker=${HOSTNAME:-shell}-$$
lease_s=30 # if we die, another worker may have the job after so long
wait_s=5   # how long a claim waits at the server; also how long a stop may take when idle

stopping='' child='' nap='' renewer=''
trap 'stopping=1; [[ -z $child ]] || kill -TERM "$child" 2>/dev/null' TERM INT

# Sleeps, but not through a signal.
rest() {
  sleep "$1" &
  nap=$!
  wait "$nap"
  kill "$nap" 2>/dev/null
}

# post PATH BODY [KEY]: one request. Sets $status (000: no answer) and $reply. The token is not among curl's arguments,
# where every user of the machine could read it.
post() {
  local answer
  answer=$(
    {
      [[ -z ${SIGNALBOX_TOKEN:-} ]] || printf 'header = "authorization: Bearer %s"\n' "$SIGNALBOX_TOKEN"
      [[ -z ${3:-} ]] || printf 'header = "idempotency-key: %s"\n' "$3"
    } | curl --config - --silent --max-time $((wait_s + 10)) --write-out '\n%{http_code}' \
      --header 'content-type: application/json' --data "$2" "$url/v1/jobs/$1"
  )
  status=${answer##*$'\n'} reply=${answer%$'\n'*}
}

# insist SECONDS PATH BODY: asks until there is a definite answer, but not for longer than that. The key makes asking
# again safe: what was done the first time is answered again. Fails when there was none, or a no; $reply says why.
insist() {
  local key pause=1 ends=$((SECONDS + $1))
  key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  while true; do
    post "$2" "$3" "$key"
    case $status in
      2??) return 0 ;;
      # No answer, too busy, not ready, or the same request still under way: later it may be taken.
      000 | 408 | 429 | 5??) ;;
      409) [[ $reply == *'"code":"in_progress"'* ]] || return 1 ;;
      *) return 1 ;;
    esac
    if ((SECONDS >= ends)) || [[ -n $stopping && $2 == claim ]]; then return 1; fi
    echo "worker.sh: $2: status $status; asking again" >&2
    rest "0.$((RANDOM % 5 + 5))"
    for ((i = 1; i < pause; i++)); do rest 1; done
    ((pause < 5)) && pause=$((pause + 1))
  done
}

# Renews the lease while the command runs. It stops the command when the job is lost or its cancellation was requested.
renew() {
  trap 'kill "$nap" 2>/dev/null; exit' TERM
  while true; do
    rest $((lease_s / 3))
    post "$1/renew" "{\"token\":\"$2\",\"leaseMs\":${lease_s}000}"
    case $status:$reply in
      2??:*'"cancelRequested":true'* | 409:* | 404:*) kill -TERM "$3" 2>/dev/null ;;
    esac
  done
}

work() {
  local id=$1 token=$2 began=$SECONDS code again
  JOB_ID=$id "${@:4}" <<<"$3" &
  child=$!
  # The signal may have come just before there was anybody to pass it on to.
  [[ -z $stopping ]] || kill -TERM "$child" 2>/dev/null
  renew "$id" "$token" "$child" &
  renewer=$!
  # A signal ends the wait, but not always the command: that has ten seconds then.
  while true; do
    wait "$child"
    code=$?
    if ! kill -0 "$child" 2>/dev/null; then
      # Ended by the signal, the wait has the signal's code; the command's own is still to be had.
      if [[ -n $stopping ]]; then
        wait "$child" 2>/dev/null
        again=$?
        ((again == 127)) || code=$again
      fi
      break
    fi
    for ((i = 0; i < 100; i++)); do
      kill -0 "$child" 2>/dev/null || break
      rest 0.1
    done
    kill -KILL "$child" 2>/dev/null
  done
  child=''
  kill -TERM "$renewer" 2>/dev/null
  wait "$renewer"
  if ((code == 0)); then
    settle "$id" ack "{\"token\":\"$token\",\"ranMs\":$(((SECONDS - began) * 1000))}"
  elif [[ -n $stopping ]]; then
    settle "$id" nack "{\"token\":\"$token\",\"handBack\":true}"
  else
    settle "$id" nack "{\"token\":\"$token\",\"error\":\"the command ended with $code\"}"
  fi
}

# After the lease another worker may have the job, so it is useless to ask for longer.
settle() {
  insist "$lease_s" "$1/$2" "$3" || echo "worker.sh: $2 of job $1: $status $reply" >&2
}

echo "$worker works for $url"
claim="{\"queues\":[\"$queue\"],\"kinds\":[\"$kind\"],\"workerId\":\"$worker\",\"leaseMs\":${lease_s}000,\"waitMs\":${wait_s}000}"
while [[ -z $stopping ]]; do
  if ! insist 2000000000 claim "$claim"; then
    [[ -n $stopping ]] && break
    echo "worker.sh: $status $reply" >&2
    exit 1
  fi
  # A claimed job begins with its id and ends with its token, leaseEndsAt and handBackCount. What the payload holds in between
  # is none of our business, and cannot be taken for them.
  id=$(sed -n 's/^{"items":\[{"id":"\([^"]*\)".*/\1/p' <<<"$reply")
  token=$(sed -n 's/.*,"token":"\([^"]*\)","leaseEndsAt":[0-9]*,"handBackCount":[0-9]*}\],"cursor":null}$/\1/p' <<<"$reply")
  [[ -n $id && -n $token ]] || continue
  if [[ -n $stopping ]]; then
    settle "$id" nack "{\"token\":\"$token\",\"handBack\":true}"
  else
    job=${reply#'{"items":['}
    work "$id" "$token" "${job%'],"cursor":null}'}" "$@"
  fi
done
exit 0
