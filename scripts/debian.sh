# Sourced by the other scripts: what is missing here comes from Debian, where that is allowed.

# from_debian PACKAGE...: false when this machine is none of Debian's, or we are not root.
from_debian() {
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
    echo "installing $* from Debian"
    apt_output=$(apt-get update 2>&1 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" 2>&1) || {
        echo "$apt_output" >&2
        return 1
    }
}

# newer_than_16 COMMAND: whether its Java is one that Spark and RocketMQ run on.
newer_than_16() {
    "$1" -version 2>&1 | grep -Eq '(version "|javac )(1[7-9]|[2-9][0-9])'
}
