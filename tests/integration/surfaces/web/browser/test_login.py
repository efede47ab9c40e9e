"""The owner logs in with the printed link, in a real browser, and out again."""

from playwright.sync_api import expect


def test_the_printed_link_logs_in_once(pages, web):
    page = pages.open_context().new_page()
    page.goto(web.link)
    page.get_by_role("button", name="Log in").press("Enter")
    page.wait_for_url(f"{web.url}/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")
    [cookie] = page.context.cookies()
    assert {name: cookie[name] for name in ("httpOnly", "sameSite", "domain", "path")} == {
        "httpOnly": True,
        "sameSite": "Strict",
        "domain": "127.0.0.1",
        "path": "/",
    }
    assert page.evaluate("document.cookie") == ""
    again = pages.open_context().new_page()
    again.goto(web.link)
    again.get_by_role("button", name="Log in").click()
    expect(again.get_by_role("main")).to_contain_text("The link was used already, or is older than a minute.")
    assert again.context.cookies() == []


def test_who_is_not_logged_in_sees_only_the_login(pages, web):
    page = pages.open_context().new_page()
    page.goto("/runs")
    assert page.url == f"{web.url}/login"
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_logout_ends_the_login(page, web):
    page.goto("/")
    cookies = page.context.cookies()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{web.url}/login")
    assert page.context.cookies() == []
    page.context.add_cookies(cookies)
    page.goto("/runs")
    assert page.url == f"{web.url}/login"
