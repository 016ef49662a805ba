"""Part of the script: the SCRAM credentials of users."""

from tests.lab.stock_tools.calls import configs
from tests.lab.stock_tools.steps import Call, Change, Reads, Step

CREDENTIALS: tuple[Step, ...] = (
    Change(
        configs(
            "--alter --entity-type users --entity-name ann "
            "--add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
        )
    ),
    Change(
        Call(
            "kafka-configs",
            "--bootstrap-server {controller} --alter --entity-type users --entity-name 'O=b c' "
            "--add-config SCRAM-SHA-256=[password=secret],SCRAM-SHA-512=[password=secret]",
        )
    ),
    Reads(
        (
            configs("--describe --entity-type users"),
            configs("--describe --entity-type users --entity-name 'O=b c'"),
            configs(
                "--alter --entity-type users --entity-name ann "
                "--add-config SCRAM-SHA-256=[iterations=16385,password=secret]"
            ),
            configs(
                "--alter --entity-type users --entity-name ann "
                "--add-config SCRAM-SHA-256=[iterations=4095,password=secret]"
            ),
            configs("--alter --entity-type users --entity-name ann --delete-config SCRAM-SHA-512"),
        )
    ),
    Change(
        configs(
            "--alter --entity-type users --entity-name 'O=b c' "
            "--add-config SCRAM-SHA-512=[iterations=8192,password=other] "
            "--delete-config SCRAM-SHA-256"
        )
    ),
    Change(
        configs("--alter --entity-type users --entity-name 'O=b c' --delete-config SCRAM-SHA-512")
    ),
)
