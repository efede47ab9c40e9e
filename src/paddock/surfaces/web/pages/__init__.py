"""The pages, one module for each: what it asks of the floors below, and which template shows it.

In the order of the navigation: now, approvals, runs (and run, one of them), sessions, changes, servers, policy, record,
doctor; and log_in.

A module has `ROUTES`. Its functions get a request that has passed `entry`: `find_viewer` returns who looks, and
`find_form` what a form has sent. They return `render(request, TEMPLATE, ...)`, or after a form a redirect (303).
"""

from starlette.routing import Route

from paddock.surfaces.web.pages import (
    approvals,
    changes,
    doctor,
    now,
    policy,
    record,
    run,
    runs,
    servers,
    sessions,
)

ROUTES: tuple[Route, ...] = (
    *now.ROUTES,
    *approvals.ROUTES,
    *runs.ROUTES,
    *run.ROUTES,
    *sessions.ROUTES,
    *changes.ROUTES,
    *servers.ROUTES,
    *policy.ROUTES,
    *record.ROUTES,
    *doctor.ROUTES,
)
"""The routes of all pages."""
