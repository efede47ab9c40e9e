"""What a server knows of its users: tokens, their questions and their rates; alone, or together with other servers."""

from typing import TYPE_CHECKING, NamedTuple

from paddock.app.questions import QuestionStore
from paddock.settings.schema import Settings
from paddock.tenants.questions import QuestionDirectories
from paddock.tenants.token_file import TokenFile
from paddock.tenants.token_store import FileTokens, TokenStore, open_shared_tokens

if TYPE_CHECKING:
    from paddock.cluster.database import Database
    from paddock.cluster.questions import Identity
    from paddock.tenants.shared_rates import SharedRates


class Stores(NamedTuple):
    """The stores of one server."""

    tokens: TokenStore
    questions: QuestionStore
    rates: "SharedRates | None" = None


def open_file_stores(settings: Settings) -> Stores:
    """Return the stores of a server of its own, in files below `serve.directory`."""
    directory = settings.serve.directory
    return Stores(FileTokens(TokenFile(directory)), QuestionDirectories(directory))


def open_shared_stores(settings: Settings, database: "Database", identity: "Identity") -> Stores:
    """Return the stores that the servers of a cluster share. Raises ConfigurationError."""
    from paddock.cluster.questions import SharedQuestions
    from paddock.cluster.seals import open_seals
    from paddock.tenants.shared_rates import SharedRates

    return Stores(
        open_shared_tokens(database, settings.cluster),
        SharedQuestions(database, identity, open_seals(settings.cluster)),
        SharedRates(database, identity.node),
    )
