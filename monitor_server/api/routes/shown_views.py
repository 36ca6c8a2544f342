"""`POST /api/v1/view`: shows a view of the dashboard on every open page, and returns its whole address."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller
from monitor_server.access.sessions import is_encrypted
from monitor_server.api.body_fields import By, ShortNote
from monitor_server.api.dependencies import Asking, Collector, Serving, client_address
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.schemas import Body, ShownView
from monitor_server.api.schemas.page_addresses import (
    LONGEST_ADDRESS,
    PAGE_ADDRESS,
    PageAddress,
    read_page_address,
)
from monitor_server.errors import UnknownAlert, UnknownRun
from monitor_server.step_processing.events import ViewShown
from monitor_server.store.repositories import Repositories

__all__ = ["router"]

router = APIRouter()


def _check_address(address: str) -> str:
    try:
        read_page_address(address)
    except ValueError:
        raise PydanticCustomError(
            "page_address",
            "must be the path of a page of the dashboard with its query, as it stands in the address bar behind the "
            "host, such as /runs/ID?signals=entropy; other sites, paths that are no pages, fragments and characters "
            "that a browser writes as %.. are not accepted",
        ) from None
    return address


class ViewToShow(Body):
    """The view to show, and the reason."""

    address: Annotated[
        str,
        Field(
            max_length=LONGEST_ADDRESS,
            json_schema_extra={"pattern": PAGE_ADDRESS},
            description="The path of a page with its query, such as /runs/ID?signals=entropy",
        ),
        AfterValidator(_check_address),
    ]
    note: ShortNote = ""
    by: By = "somebody"


@router.post("/view", responses=BODY_REFUSALS | NOT_FOUND)
async def show_view(body: ViewToShow, request: Request, collector: Serving, asking: Asking) -> ShownView:
    """Show a view on the pages that are open now and whose keys may access its project. Later pages do not get it."""
    collector.shown_views.count(asking.counted_as or client_address(request))
    now, page = collector.clock(), read_page_address(body.address)

    def write(repositories: Repositories) -> str | None:
        project = _project(repositories, page, asking)
        # The entry has no query and no note, because they would remain after the deletion of the run that they
        # describe.
        record_change(repositories, asking, "view.show", page.path, now=now, project=project, by=body.by)
        return project

    project = await collector.write("views", write)
    shown = ViewShown(address=body.address, note=body.note, by=asking.signature(body.by), at=now, project=project)
    collector.relay.publish([shown])
    return ShownView(
        address=shown.address,
        note=shown.note,
        by=shown.by,
        at=shown.at,
        url=_site(request, collector) + shown.address,
        project=project,
    )


def _project(repositories: Repositories, page: PageAddress, asking: Caller) -> str | None:
    """Return the project of a page; if it shows no particular run, that of the caller.

    Raises:
        UnknownAlert: If the alert of the page is not of its run, or the caller may not access its project.
        UnknownRun: If a run of the page does not exist, or the caller may not access its project.
    """
    if page.alert_id is not None:
        alert = repositories.alerts.view(page.alert_id)
        if alert is None or (alert["run_id"],) != page.run_ids or not asking.reaches(alert["project"]):
            raise UnknownAlert.by_id(page.alert_id)
    projects = set()
    for run_id in page.run_ids:
        project = repositories.runs.project(run_id)
        if project is None or not asking.reaches(project):
            raise UnknownRun.by_id(run_id)
        projects.add(project)
    if not projects:
        return asking.project
    return projects.pop() if len(projects) == 1 else None


def _site(request: Request, collector: Collector) -> str:
    """Return the caller's address of the dashboard, without a slash at the end, unless a setting states it."""
    settings = collector.settings
    if settings.public_url:
        return settings.link_url
    secure = is_encrypted(request.headers, scheme=request.url.scheme, is_https=settings.is_https)
    return f"{'https' if secure else 'http'}://{request.url.netloc}"
