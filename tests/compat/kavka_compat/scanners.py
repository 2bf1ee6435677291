"""Scanners of TLS that other people wrote: sslyze (PyPI) and testssl.sh (Debian), and what they find."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from kavka_compat.artifacts import MissingTool
from kavka_compat.environments import environment

SSLYZE = "6.3.1"
_SECONDS = 1500
_OF_THE_TEST = {"cert_chain_of_trust", "cert_trust", "cert_revocation"}
"""Findings of testssl.sh about the test's own authority: nothing trusts it, and it publishes no revocations."""
_GRAVE = ("MEDIUM", "HIGH", "CRITICAL", "FATAL")


def testssl(target: str, directory: Path) -> tuple[list[str], int]:
    """Scan `host:port` with testssl.sh; return what is MEDIUM or worse, and how many checks there were."""
    program = shutil.which("testssl")
    if program is None:
        raise MissingTool("`testssl` is needed; install it with: apt-get install -y testssl.sh")
    report = directory / f"testssl-{target.replace(':', '-')}.json"
    command = [program, "--quiet", "--warnings", "off", "--color", "0", "--nodns", "none"]
    # Protocols, suites, forward secrecy, preferences, the certificate, known attacks: not what each browser would use.
    checks = ["-p", "-s", "-f", "-P", "-S", "-U"]
    command += [*checks, "--jsonfile", str(report), target]
    # Its exit code counts findings.
    with (directory / f"{report.name}.out").open("wb") as sink:
        subprocess.run(command, stdout=sink, stderr=sink, timeout=_SECONDS, check=False)
    findings = json.loads(report.read_text())
    return [
        f"{one['severity']} {one['id']}: {one['finding']}"
        for one in findings
        if one["severity"] in _GRAVE and one["id"] not in _OF_THE_TEST
    ], len(findings)


def sslyze(target: str, directory: Path, *options: str) -> dict[str, Any]:
    """Scan `host:port` with sslyze; return the result of each of its checks by name."""
    report = directory / f"sslyze-{target.replace(':', '-')}.json"
    command = [
        str(environment("sslyze", SSLYZE) / "sslyze"),
        f"--json_out={report}",
        *options,
        target,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert report.exists(), done.stdout + done.stderr
    (found,) = json.loads(report.read_text())["server_scan_results"]
    assert found["scan_status"] == "COMPLETED", found
    results: dict[str, Any] = found["scan_result"]
    return results


def deviations(results: dict[str, Any]) -> list[str]:
    """Return what sslyze's results have that a well configured server of today has not; trust is not looked at."""
    found = []
    for version in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"):
        if results[f"{version}_cipher_suites"]["result"]["is_tls_version_supported"]:
            found.append(f"{version} is served")
    for version in ("tls_1_2", "tls_1_3"):
        accepted = results[f"{version}_cipher_suites"]["result"]["accepted_cipher_suites"]
        names = [one["cipher_suite"]["name"] for one in accepted]
        if not names:
            found.append(f"{version} is not served")
        found += [f"weak suite {n}" for n in names if "_GCM_" not in n and "_POLY1305_" not in n]
    expected = {
        ("tls_compression", "supports_compression"): False,
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection"): False,
        ("tls_fallback_scsv", "supports_fallback_scsv"): True,
        ("heartbleed", "is_vulnerable_to_heartbleed"): False,
        ("robot", "robot_result"): "NOT_VULNERABLE_RSA_NOT_SUPPORTED",
        ("session_renegotiation", "supports_secure_renegotiation"): True,
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos"): False,
        ("tls_extended_master_secret", "supports_ems_extension"): True,
    }
    for (check, name), wanted in expected.items():
        shown = results[check]["result"][name]
        if shown != wanted:
            found.append(f"{check}: {name} is {shown}")
    return found
