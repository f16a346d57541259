"""Five tokens are known; a value is put in as it is, and one that is missing is never guessed."""

import pytest

from dpone_contract.errors import PlanInvalidError, RunContextInvalidError
from dpone_contract.window_tokens import WindowToken, find_tokens, render_tokens

DS = {WindowToken.DS: "2013-01-01"}


@pytest.mark.parametrize("token", list(WindowToken))
@pytest.mark.parametrize("form", ["{{{{ {} }}}}", "{{{{{}}}}}", "{{{{  {}}}}}"])
def test_each_token_is_found_and_replaced_however_it_is_spaced(token, form):
    text = form.format(token.value)
    assert (token,) == find_tokens(text)
    assert "x" == render_tokens(text, {token: "x"})


@pytest.mark.parametrize("text", ["", "2013-01-01", "{ds}", "{% ds %}", "ds"])
def test_text_without_braces_is_left_alone(text):
    assert () == find_tokens(text)
    assert text == render_tokens(text, {})


def test_tokens_are_found_in_order_and_replaced_within_text():
    text = "{{ ds }}/{{ dag_run_id }}/{{ ds }}"
    assert (WindowToken.DS, WindowToken.DAG_RUN_ID, WindowToken.DS) == find_tokens(text)
    assert "1/2/1" == render_tokens(text, {WindowToken.DS: "1", WindowToken.DAG_RUN_ID: "2"})


@pytest.mark.parametrize(
    "text, hint",
    [
        ("{{ data_interval_strat }}", "did you mean {{ data_interval_start }}?"),
        ("{{ DS }}", "use one of: data_interval_start, data_interval_end, logical_date, ds, dag_run_id"),
        ("{{ }}", "use one of"),
        ("{{ ds | upper }}", "use one of"),
        ("{{ ds }} {{ macros.ds_add(ds, 1) }}", "use one of"),
    ],
)
def test_an_unknown_token_is_refused_with_the_nearest(text, hint):
    with pytest.raises(PlanInvalidError, match="unknown token") as caught:
        find_tokens(text)
    assert hint in caught.value.next_step
    with pytest.raises(PlanInvalidError, match="unknown token"):
        render_tokens(text, DS)


@pytest.mark.parametrize("text", ["{{ ds", "ds }}", "{{ ds }} }}", "{{\nds }}", "{{ ds }"])
def test_braces_that_do_not_close_are_refused(text):
    with pytest.raises(PlanInvalidError, match="do not close") as caught:
        find_tokens(text)
    assert caught.value.next_step == "write {{ token }}"


@pytest.mark.parametrize(
    "values", [{}, {WindowToken.DS: ""}, {WindowToken.DS: "  "}, {WindowToken.DS: "None"}]
)
def test_a_token_without_a_value_is_refused(values):
    with pytest.raises(RunContextInvalidError, match="has no value") as caught:
        render_tokens("{{ ds }}", values)
    assert "--execution-date" in caught.value.next_step


def test_a_value_is_not_replaced_again():
    assert "{{ dag_run_id }}" == render_tokens("{{ ds }}", {WindowToken.DS: "{{ dag_run_id }}"})
