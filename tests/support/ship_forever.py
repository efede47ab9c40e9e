"""Write records to a ledger and ship them, until it is killed: URL DIRECTORY NODE."""

import asyncio
import sys
from pathlib import Path

from paddock.cluster.database import Database
from paddock.cluster.ship import Shipper
from paddock.model.ids import new_id
from paddock.record.ledger.writer import Ledger


async def main(url: str, directory: Path, node: str) -> None:
    async with Database(url) as database:
        with Ledger(directory) as ledger:
            shipper = Shipper(database, directory, node)
            shipping = asyncio.create_task(shipper.run())
            while not shipping.done():
                for _ in range(50):
                    ledger.append("decided", new_id(), {"name": "x" * 200})
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
