"""The texts of transactions."""

from __future__ import annotations

from typing import Final

TRANSACTIONS: Final[dict[str, str]] = {
    ", epoch": "，纪元",
    "A transaction hangs where a partition holds it open and no coordinator will end it: consumers that read "
    "committed records stop there.": (
        "如果某个分区中的事务仍未结束，而没有协调器会结束它，该事务即为悬挂事务：只读取已提交记录的消费者会停在此处。"
    ),
    "Abort": "中止",
    "Abort a transaction": "中止事务",
    "Abort a transaction in": "中止事务：",
    "Abort transaction": "中止事务",
    "Abort …": "中止…",
    "An abort marker is written into this one partition, and consumers that read committed records go on "
    "after it. Its records since offset": (
        "将只在这一个分区中写入中止标记，只读取已提交记录的消费者随后会继续。该事务的记录，自偏移量"
    ),
    "Began": "开始时间",
    "Coordinator epoch": "协调器纪元",
    "End this transaction": "结束此事务",
    "Epoch": "纪元",
    "Find": "查找",
    "Find hanging ones": "查找悬挂事务",
    "Hanging": "悬挂事务",
    "Hanging transactions": "悬挂事务",
    "Idle for": "空闲时长",
    "It has been open for longer than its timeout: its coordinator is about to abort it, or cannot.": (
        "该事务的持续时间已超过其超时：协调器即将中止它，或无法中止。"
    ),
    "Last write": "最后写入",
    "No transactional id on the brokers that answered.": "已响应的 Broker 上没有事务 ID。",
    "No producer has used a transactional id lately.": "近期没有生产者使用过事务 ID。",
    "No transaction hangs": "没有悬挂事务",
    "No transaction is open.": "没有未结束的事务。",
    "No transactional id matches.": "没有匹配的事务 ID。",
    "Open for": "已持续",
    "Partitions of the transaction": "事务的分区",
    "Producer": "生产者",
    "Search transactional ids": "搜索事务 ID",
    "The producer is fenced: its open transaction is aborted, and the program that has it fails with its next "
    "write. A program that uses the transactional id starts with a new producer.": (
        "该生产者将被隔离：其未结束的事务会被中止，持有它的程序将在下一次写入时失败。"
        "之后使用该事务 ID 的程序会以新的生产者开始。"
    ),
    "Timeout": "超时",
    "Transactional id": "事务 ID",
    "Transactions": "事务",
    "Type the transactional id to confirm": "输入事务 ID 以确认",
    "Without a write for": "无写入时长",
    "are never shown to them. If a coordinator still knows the transaction, end it by its transactional id "
    "instead: other partitions may be committed.": (
        "起，永远不会向它们显示。如果协调器仍记得该事务，请改为通过其事务 ID 结束它：其他分区可能已提交。"
    ),
    "in": "，主题",
    "min": "分钟",
    "open": "个未结束",
}
