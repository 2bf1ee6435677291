#!/usr/bin/env bash
# Make this clone ready to run: `setup.sh demo` (what users need), `setup.sh lint` (style and types), `setup.sh unit` (unit tests),
# `setup.sh docs` (the site), `setup.sh dev` (these three; none of them has Java or Spark), `setup.sh test` (all, and other people's clients),
# `setup.sh long` (what `make long` needs besides).
# Does nothing, quickly, when nothing is to do.
# As root on Debian it installs what is missing with apt; otherwise it says in one sentence what to install.
set -euo pipefail
cd "$(dirname "$0")/.."

need="${1:?demo, lint, unit, docs, dev, test or long}"
is_long=
if [ "$need" = long ]; then need=test is_long=yes; fi
readonly need is_long
python="${PYTHON:-python3}"
readonly state=.setup

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

has_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# install WHY PACKAGE...: with apt when that is possible
install() {
    local why="$1"; shift
    if ! has_apt; then
        fail "$why; install it, on Debian as root with: apt-get install $*"
    fi
    say "$why; installing $* with apt"
    if [ ! -e "$state/apt-updated" ]; then
        apt-get update >"$state/apt.log" 2>&1 || { tail -5 "$state/apt.log" >&2; fail "apt-get update failed"; }
        touch "$state/apt-updated"
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$state/apt.log" 2>&1 ||
        { tail -5 "$state/apt.log" >&2; fail "apt-get install $* failed (all of it: $state/apt.log)"; }
}

python_says() { "$python" -c "$1" >/dev/null 2>&1; }

readonly new_enough='import sys; assert sys.version_info >= (3, 11)'
readonly makes_environments='import ensurepip, venv'
readonly has_headers='import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")'
readonly is_plain='import sys, sysconfig
assert sys.base_prefix != "/usr" and "--enable-optimizations" not in sysconfig.get_config_var("CONFIG_ARGS")'

# A Python that was built without optimisation, as pyenv does, takes a quarter more CPU than a distribution's.
choose_python() {
    local found="$python"
    if [ -n "${PYTHON:-}" ] || ! python_says "$is_plain"; then return; fi
    python=/usr/bin/python3
    if python_says "$new_enough" && { has_apt || python_says "$makes_environments; $has_headers"; }; then
        say "$found was built without optimisation; taking $python (PYTHON=$found keeps it)"
    else
        python="$found"
    fi
}

need_python() {
    choose_python
    command -v "$python" >/dev/null || fail "kavka needs Python 3.11 or newer; install python3"
    python_says "$new_enough" ||
        fail "kavka needs Python 3.11 or newer, and $python is $("$python" --version); name another with PYTHON="
    python_says "$makes_environments" || install "$python cannot make virtual environments" python3-venv
}

# The compiled kernel is an optional part: without a compiler its twin in Python serves.
want_compiler() {
    if command -v cc >/dev/null && python_says "$has_headers"; then return; fi
    if has_apt; then
        install "no C compiler with Python's headers" gcc libc6-dev python3-dev
    elif [[ "$need" =~ ^(demo|lint|docs)$ ]]; then
        say "no C compiler with Python's headers: the twin of the kernel in Python will serve (slower)"
    else
        fail "the tests need a C compiler with Python's headers; install gcc, libc6-dev and python3-dev"
    fi
}

java_works() {
    local java version
    java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    version="$("$java" -version 2>&1)" || return 1
    version="${version#*version \"}"
    [ "${version%%.*}" -ge 17 ] 2>/dev/null
}

need_java() {
    if java_works; then return; fi
    local package=openjdk-17-jre-headless
    # Debian 13 has 21 in place of 17
    if has_apt; then
        apt-get update >"$state/apt.log" 2>&1 && touch "$state/apt-updated"
        apt-cache show "$package" >/dev/null 2>&1 || package=openjdk-21-jre-headless
    fi
    install "Spark needs Java 17 or newer" "$package"
    java_works || fail "java is still older than 17; is JAVA_HOME set to another one?"
}

# The extra `kerberos` is built with the headers; the tests run a KDC, and kinit, and kcat through Cyrus SASL.
need_kerberos() {
    if [ -e /usr/include/gssapi/gssapi.h ] && [ -x /usr/sbin/krb5kdc ] && [ -x /usr/sbin/kadmin.local ] &&
        command -v kinit >/dev/null && compgen -G '/usr/lib/*/sasl2/libgssapiv2.so' >/dev/null; then return; fi
    install "the tests need Kerberos" libkrb5-dev krb5-kdc krb5-admin-server krb5-user libsasl2-modules-gssapi-mit
}

fingerprint() {
    { cat pyproject.toml setup.py scripts/setup.sh
      find src \( -name '*.pyx' -o -name '*.pxi' \) -print0 | sort -z | xargs -0 -r cat; pwd; } | sha256sum
}

# extras_of NEED: the parts of kavka itself that a group of pyproject.toml works on
extras_of() {
    case "$1" in
        demo) echo demo ;;
        docs) echo ;;
        lint) echo terminal ;;
        unit | dev) echo client-metrics,collect,console,lake,metrics,oauth,schemas,sql,tls ;;
        test) echo client-metrics,collect,console,demo,kerberos,lake,metrics,oauth,schemas,sql,tls ;;
    esac
}

# pip_install WHAT ARGUMENT...
pip_install() {
    local what="$1" log="$state/pip.log"; shift
    if ! .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off "$@" 2>&1 |
        tee "$log" | awk '/^Collecting|^ *Building wheel|^Installing collected|^Successfully built/ {
            sub(/^ +/, ""); sub(/ \(from.*/, ""); print "setup:   " substr($0, 1, 100); fflush() }'; then
        tail -20 "$log" >&2
        fail "pip could not install $what (all of it: $log)"
    fi
}

readonly knows_groups='import pip; assert tuple(int(part) for part in pip.__version__.split(".")[:2]) >= (25, 1)'

# install_kavka NEED: this checkout with its extras, and what the group NEED of pyproject.toml has
install_kavka() {
    local extras what group=()
    extras="$(extras_of "$1")"
    what="kavka${extras:+[$extras]}"
    if [ "$1" != demo ]; then
        group=(--group "$1")
        what="$what and the group $1"
        .venv/bin/python -c "$knows_groups" 2>/dev/null || pip_install "a pip that knows groups" --upgrade 'pip>=25.1'
    fi
    say "installing $what with pip into .venv (the first time some minutes)"
    pip_install "$what" -e ".${extras:+[$extras]}" "${group[@]}"
}

# covers NEED: the environments that have all that NEED asks for
covers() {
    case "$1" in
        lint) echo test dev unit lint ;;
        unit | docs) echo test dev "$1" ;;
        *) echo test "$1" ;;
    esac
}

environment() {
    local now stamp
    now="$(fingerprint)"
    for stamp in $(covers "$need"); do
        if [ -x .venv/bin/kavka ] && [ "$(cat ".venv/kavka-$stamp" 2>/dev/null)" = "$now" ]; then return; fi
    done
    need_python
    want_compiler
    if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
        say "making .venv with $("$python" --version)"
        "$python" -m venv --clear .venv
    fi
    install_kavka "$need"
    # pip compiles what it installs, but not what it installs as an editable checkout
    .venv/bin/python -m compileall -q src || true
    printf '%s\n' "$now" >".venv/kavka-$need"
}

# What is not installed is named: its tests are skipped, each with its reason.
need_what_is_long() {
    command -v testssl >/dev/null || install "the scans of TLS need testssl" testssl.sh
    compgen -G '/usr/include/*/curl/curl.h' >/dev/null || [ -e /usr/include/curl/curl.h ] ||
        install "librdkafka's test of OpenID Connect needs libcurl" libcurl4-openssl-dev
    [ -e /usr/include/rapidjson/document.h ] || install "librdkafka's tests of statistics need RapidJSON" rapidjson-dev
    command -v go >/dev/null || say "no go in the PATH: the Go clients (franz-go, sarama, kafka-go) will be skipped"
    command -v npm >/dev/null || say "no npm in the PATH: tests/compat/test_kafkajs.py and test_oidc.py will be skipped"
    command -v chromium >/dev/null || say "no chromium in the PATH: tests/console/test_browser.py will be skipped"
    command -v nginx >/dev/null || say "no nginx in the PATH: a test of tests/console/test_other_machines.py will be skipped"
}

mkdir -p "$state"
rm -f "$state/apt-updated"
if [ "$need" = test ]; then need_kerberos; fi
case "$need" in
    demo | lint | unit | docs | dev | test) environment ;;
    *) fail "demo, lint, unit, docs, dev, test or long?" ;;
esac
case "$need" in
    lint | unit | docs | dev) exit ;;
esac
need_java
if [ "$need" = test ]; then
    command -v kcat >/dev/null || install "the tests need kcat" kcat
    [ -x /usr/sbin/logrotate ] || install "the tests rotate logs with logrotate" logrotate
    command -v mvn >/dev/null || install "the tests fetch Apache Kafka with maven" maven
    if [ -n "$is_long" ]; then need_what_is_long; fi
    PYTHONPATH=tests/compat .venv/bin/python -m kavka_compat.artifacts
    # `make test` makes it beside other work.
    [ "${SPARK_CLASSES:-}" = later ] || make --no-print-directory classes
fi
