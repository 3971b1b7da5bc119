#!/bin/busybox sh
# The first process of a machine that has a kernel and one file system in memory. It starts the server in each architecture,
# asks it for all that clients and operators ask for, and ends it; then it runs tests. Each line RESULT says what came of that.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
ip link set lo up
admin=unix:/run/flash.sock
authority=/root/.local/share/flash/tls/authority.pem
large=$(md5sum < /srv/large.bin)

# What is asked, what should come, and what came.
compare() {
    if [ "$2" = "$3" ]; then echo "RESULT $arch: $1 ok"; else echo "RESULT $arch: $1 FAILED: $3"; fi
}

get() {
    curl -sS -m 20 "http://127.0.0.1:8080$1" 2>&1
}

get_over_tls() {
    curl -sS -m 20 --cacert $authority --resolve localhost:8443:127.0.0.1 "https://localhost:8443$1" 2>&1
}

ask() {
    compare "$1, small" small "$(get /small.txt)"
    compare "$1, behind a link" linked "$(get /linked/name.txt)"
    compare "$1, listing" 1 "$(get /real/ | grep -c 'href="name.txt"')"
    compare "$1, large" "$large" "$(get /large.bin | md5sum)"
    compare "$1, CGI" 'says 1' "$(get '/cgi/echo?1')"
    compare "$1, FastCGI" 'ids 0 0 0 in /' "$(get /app)"
    compare "$1, TLS" small "$(get_over_tls /small.txt)"
}

seconds() {
    cut -d. -f1 /proc/uptime
}

# Waits for a condition, a minute at most.
wait_for() {
    end=$(($(seconds) + 60))
    until "$@"; do
        [ "$(seconds)" -lt $end ] || return 1
        sleep 0.1
    done
}

serves() {
    [ "$(get /small.txt)" = small ]
}

# The server's processes. A kernel thread has no command line.
processes() {
    grep -l serve /proc/[0-9]*/cmdline /dev/null 2>/dev/null
}

nothing_is_left() {
    [ -z "$(processes)" ]
}

for arch in amped sped mt mp pipelined uring 'amped --helpers process'; do
    flash serve /srv --list --listen 127.0.0.1:8080 --listen https://127.0.0.1:8443 --tls --sandbox off --processes 2 \
        --admin $admin --cgi /cgi=/programs --app /app=/programs/application --arch $arch > /tmp/said 2>&1 &
    if wait_for serves; then
        ask 'at first'
        compare reload 0 "$(flash reload --admin $admin > /tmp/reload 2>&1; echo $?)"
        compare upgrade 0 "$(flash upgrade --admin $admin > /tmp/upgrade 2>&1; echo $?)"
        ask 'after the upgrade'
        kill "$(flash status --admin $admin | awk '$1 == "Process" { print $2 }')"
    else
        compare start small "$(get /small.txt)"
        sed "s/^/RESULT $arch said: /" /tmp/said
    fi
    wait_for nothing_is_left
    compare 'processes left' '' "$(for file in $(processes); do cat "${file%cmdline}comm"; done | tr '\n' ' ')"
    for process in $(processes); do kill -9 "$(echo "$process" | cut -d/ -f3)"; done
    sed "s/^/RESULT $arch said: /" /tmp/said | grep -iE 'said: .*(error|panic|cannot|missing|not available)'
done
cd /tests
for test in *; do
    [ -x "$test" ] || continue
    # All files are in memory here, and never leave it.
    if "./$test" --skip sees_pages_come_and_go --skip what_is_cached_is_copied_now > /tmp/said 2>&1; then
        echo "RESULT $test: ok"
    else
        grep -E '^test .*FAILED|panicked|^test result' -A1 /tmp/said | sed "s/^/RESULT $test said: /"
    fi
done
echo RESULT the end
poweroff -f
