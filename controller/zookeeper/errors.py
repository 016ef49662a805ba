"""What can go wrong with ZooKeeper apart from an operation's own error code."""


class ZooKeeperError(Exception):
    """Base of this room's errors."""


class BadConnectString(ZooKeeperError):
    """The operator's fault: `zookeeper.connect` cannot be read."""


class MalformedReply(ZooKeeperError):
    """The server's fault: bytes that are not ZooKeeper's protocol, or a reply out of order."""
