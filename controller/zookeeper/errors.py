"""Errors of ZooKeeper connections, apart from error codes of operations."""


class ZooKeeperError(Exception):
    """Base of all errors of the ZooKeeper connection."""


class BadConnectString(ZooKeeperError):
    """`zookeeper.connect` cannot be parsed. The operator is at fault."""


class LoginFailed(ZooKeeperError):
    """The server rejects the login, or is not the one that knows the password. The text contains
    no secret."""


class MalformedReply(ZooKeeperError):
    """The server sent bytes that are not ZooKeeper's protocol, or a reply out of order."""
