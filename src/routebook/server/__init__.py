"""The asyncio side of the protocol port."""
