"""Names and quantities are taken as Kubernetes takes them."""

from decimal import Decimal

import pytest

from dpone_packbuilder.kubernetes_names import (
    find_quantity,
    is_dns_label,
    is_dns_name,
    is_image,
    is_label_key,
    is_label_value,
    is_secret_key,
    is_variable,
)


@pytest.mark.parametrize(
    "text, number",
    [
        ("1", "1"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("500m", "0.5"),
        ("250u", "0.00025"),
        ("1k", "1000"),
        ("2M", "2000000"),
        ("1E", "1e18"),
        ("1e3", "1000"),
        ("1E-1", "0.1"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1Ei", "1152921504606846976"),
    ],
)
def test_a_quantity_is_a_number(text, number):
    assert find_quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0m",
        "-1",
        "+1",
        "1K",
        "1 Gi",
        "1GB",
        "512MiB",
        "1kb",
        "one",
        "1e",
        "1e999",
        "\u0661",
        "1\n",
        "m",
    ],
)
def test_what_is_no_quantity_is_none(text):
    assert find_quantity(text) is None


DIGEST = "sha256:" + "a" * 64

TAKEN = {
    is_image: (
        "dpone",
        "dpone:1",
        "library/dpone_runtime:1.0-rc.1",
        "registry.example:5000/a/b__c/d-e.f:Tag_1",
        f"Registry.Example/dpone@{DIGEST}",
        f"localhost:5000/dpone:1@{DIGEST}",
    ),
    is_dns_label: ("a", "loads", "a-1", "0", "a" * 63),
    is_dns_name: ("a", "a.b-c.d", "a" * 63 + "." + "b" * 63),
    is_label_key: ("a", "A_b.c-d", "example.com/a", "a" * 63),
    is_label_value: ("", "a", "A_b.c-1", "1.10", "a" * 63),
    is_secret_key: ("uri", "u.r_i-1", ".dotted"),
    is_variable: ("A", "a_1", "_", "A.b-c"),
}
REFUSED = {
    is_image: ("", "a b", "Dpone", "a/B:1", "a:", "a@sha256:1", "a//b", "/a", "a:1:2", "a\n", "http://a/b"),
    is_dns_label: ("", "A", "a.b", "-a", "a-", "a_b", "a" * 64, "a\n"),
    is_dns_name: ("", "A", "a..b", ".a", "a.", "a" * 64, ".".join(["a" * 60] * 5)),
    is_label_key: ("", "-a", "a-", "a b", "a/", "/a", "a/b/c", "A/b", "a" * 64),
    is_label_value: ("-", "a b", "a/b", "a" * 64, "\u00e4"),
    is_secret_key: ("", ".", "..", "..a", "a/b", "a b", "a" * 254),
    is_variable: ("", "1A", "A B", "A=B", "\u00c4", "A\n"),
}


@pytest.mark.parametrize("fits, text", [(fits, text) for fits, texts in TAKEN.items() for text in texts])
def test_a_name_that_kubernetes_takes_is_taken(fits, text):
    assert fits(text)


@pytest.mark.parametrize("fits, text", [(fits, text) for fits, texts in REFUSED.items() for text in texts])
def test_a_name_that_kubernetes_refuses_is_refused(fits, text):
    assert not fits(text)
