"""The texts of pipelines and of SQL."""

from __future__ import annotations

from typing import Final

PROGRAMS: Final[dict[str, str]] = {
    "No flow matches.": "没有匹配的流。",
    "Search flows": "搜索流",
    ": details": "：详情",
    "Batch": "批次",
    "Done.": "完成。",
    "Each topic is a table with the columns topic, partition, offset, timestamp, key, value, headers and the "
    "fields of its values.": (
        "每个主题是一张表，包含列 topic、partition、offset、timestamp、key、value、headers 以及值中的各个字段。"
    ),
    "Failed rows": "失败行数",
    "Flow": "流",
    "Late": "迟到行数",
    "No flow has reported.": "还没有流上报状态。",
    "No rows.": "没有行。",
    "Pipelines": "流水线",
    "Rate": "速率",
    "Restarts": "重启次数",
    "Rows": "行数",
    "Rows in": "输入行数",
    "Rows out": "输出行数",
    "Run": "运行",
    "SQL over topics": "用 SQL 查询主题",
    "Seconds": "秒数",
    "Seen": "最近上报",
    "Statement": "语句",
    "Stop": "停止",
    "Watermark behind": "水位线滞后",
    "does": "",
    "expectation": "期望",
    "flow": "个流",
    "in time": "滞后（时间）",
    "ms": "毫秒",
    "not run that should.": "应运行而未运行。",
    "records,": "条记录，",
    "row": "行",
    "s do": "",
}
