"""What a server knows of its users: tokens, their questions and their rates; alone, or together with other servers."""

from typing import TYPE_CHECKING, NamedTuple

from paddock.gate.questions import QuestionStore
from paddock.policy.settings.schema import Settings
from paddock.surfaces.tenants.questions import QuestionDirectories
from paddock.surfaces.tenants.token_file import TokenFile
from paddock.surfaces.tenants.token_store import FileTokens, TokenStore, open_shared_tokens

if TYPE_CHECKING:
    from paddock.gate.cluster import Cluster
    from paddock.surfaces.tenants.shared_rates import SharedRates


class Stores(NamedTuple):
    """The stores of one server."""

    tokens: TokenStore
    questions: QuestionStore
    rates: "SharedRates | None" = None


def open_stores(settings: Settings, cluster: "Cluster | None") -> Stores:
    """Return the stores that the servers of a cluster share; or those of one server, files below `serve.directory`.

    Raises ConfigurationError if `cluster.key_file` cannot be used.
    """
    if cluster is None:
        directory = settings.serve.directory
        return Stores(FileTokens(TokenFile(directory)), QuestionDirectories(directory))
    from paddock.cluster.questions import SharedQuestions
    from paddock.cluster.seals import open_seals
    from paddock.surfaces.tenants.shared_rates import SharedRates

    return Stores(
        open_shared_tokens(cluster.database, settings.cluster),
        SharedQuestions(cluster.database, cluster.node, open_seals(settings.cluster)),
        SharedRates(cluster.database, cluster.node.id),
    )
