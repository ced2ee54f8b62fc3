# Two "hosts": network namespaces joined by a veth pair of 1 Gbit/s. Source it after shell.sh; needs root, iproute2 and util-linux.
#   two_hosts_up || skip    $agent HOST COMMAND... runs a command there; $here COMMAND... on the first
host_a=weft$$a host_b=weft$$b address_a=10.213.77.1 address_b=10.213.77.2
agent=$folder/agent
here="$agent $address_a"
two_hosts_down() {
    ip netns del "$host_a"
    ip netns del "$host_b"
} 2>/dev/null
two_hosts_up() {
    [ "$(id -u)" = 0 ] && command -v ip >/dev/null && command -v tc >/dev/null && command -v unshare >/dev/null || return 1
    ip netns add "$host_a" 2>/dev/null && ip netns add "$host_b" || return 1
    trap 'two_hosts_down; rm -rf "$folder"' EXIT
    ip link add w0 netns "$host_a" type veth peer name w0 netns "$host_b" || return 1
    for side in "$host_a $address_a" "$host_b $address_b"; do
        # shellcheck disable=SC2086
        set -- $side
        ip netns exec "$1" sh -c "ip address add $2/24 dev w0 && ip link set w0 up && ip link set lo up &&
            tc qdisc add dev w0 root tbf rate 1gbit burst ${link_burst:-256kb} latency 50ms" || return 1
    done
    # A host has a name of its own, by which launchers tell hosts apart, and its own memory for messages.
    cat >"$agent" <<END
#!/bin/sh
case \$1 in *$address_a) name=$host_a;; *) name=$host_b;; esac
shift
exec ip netns exec \$name unshare --uts sh -c "hostname \$name; \$*"
END
    chmod +x "$agent"
} 2>/dev/null
