"""A Kerberos realm of a test: MIT's KDC on loopback, with its own configuration, database and key tabs."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

REALM: Final = "KAVKA.TEST"
SERVICE: Final = f"kafka/localhost@{REALM}"
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"

_KRB5: Final = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  kdc_timeout = 5000
  max_retries = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_KDC: Final = """\
[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
    max_life = 1h
    max_renewable_life = 2h
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }}
[logging]
  kdc = FILE:{directory}/kdc.log
"""
_PROGRAMS: Final = ("/usr/sbin/kdb5_util", "/usr/sbin/kadmin.local", "/usr/sbin/krb5kdc")


class Realm:
    """A realm whose KDC runs; `environment` points every program at it."""

    def __init__(self, directory: Path) -> None:
        """Write the configuration, and make the database."""
        for program in _PROGRAMS:
            assert Path(program).exists(), f"{program} is missing: run scripts/setup.sh test"
        self.directory = directory
        directory.mkdir(mode=0o700)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.krb5_conf = directory / "krb5.conf"
        self.krb5_conf.write_text(_KRB5.format(realm=REALM, port=self.port))
        kdc_conf = directory / "kdc.conf"
        kdc_conf.write_text(_KDC.format(realm=REALM, port=self.port, directory=directory))
        self.environment = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(kdc_conf),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
            "KRB5RCACHENAME": f"file2:{directory}/replays",
        }
        self._kdc: subprocess.Popen[bytes] | None = None
        self.run("/usr/sbin/kdb5_util", "create", "-s", "-r", REALM, "-P", "of a test")

    def run(self, *command: str, given: str | None = None) -> str:
        """Run a program in the realm; return what it prints."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def admin(self, *commands: str) -> None:
        """Run commands of kadmin beside the database."""
        printed = self.run("/usr/sbin/kadmin.local", "-r", REALM, given="\n".join(commands) + "\n")
        assert printed.count("kadmin.local") >= len(commands), printed

    def keytab(self, *principals: str, name: str = "", options: Sequence[str] = ()) -> Path:
        """Make principals with random keys; return the key tab that has them all."""
        file = (
            self.directory / f"{name or principals[0].replace('/', '-').partition('@')[0]}.keytab"
        )
        made = [f"addprinc {' '.join(options)} -randkey {each}" for each in principals]
        self.admin(*made, f"ktadd -k {file} {' '.join(principals)}")
        assert file.exists()
        return file

    def start(self) -> None:
        """Start the KDC; return when it answers."""
        self._kdc = subprocess.Popen(
            ["/usr/sbin/krb5kdc", "-n", "-r", REALM],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while True:
            assert self._kdc.poll() is None, (self.directory / "kdc.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except ConnectionRefusedError:
                os.sched_yield()

    def stop(self) -> None:
        """Stop the KDC."""
        if self._kdc is not None:
            self._kdc.terminate()
            self._kdc.wait(30)
            self._kdc = None


@contextmanager
def realm_in(directory: Path) -> Iterator[Realm]:
    """Return a realm whose KDC runs."""
    realm = Realm(directory)
    realm.start()
    try:
        yield realm
    finally:
        realm.stop()


class Site:
    """A realm with a broker's key tab and those of users, in which this process is."""

    def __init__(self, realm: Realm) -> None:
        self.realm = realm
        self.broker = realm.keytab(SERVICE, name="broker")
        self.alice = realm.keytab(f"alice@{REALM}")

    def broker_settings(self, **changed: str) -> dict[str, str]:
        """Return the settings of `support.sasl.served`, which listens on localhost, the name of its principal."""
        return {
            "listeners": "CLIENTS://localhost:0",
            "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
            "listener.name.clients.gssapi.sasl.jaas.config": jaas(self.broker, SERVICE),
            **changed,
        }


def jaas(keytab: Path, principal: str) -> str:
    """Return the login module of a key tab, as Apache Kafka's documentation has it."""
    return (
        f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'
    )


@contextmanager
def site_in(directory: Path) -> Iterator[Site]:
    """Return a realm whose KDC runs, and let this process be in it."""
    with realm_in(directory) as realm, pytest.MonkeyPatch.context() as patched:
        for name, value in realm.environment.items():
            patched.setenv(name, value)
        yield Site(realm)
