"""The texts of elections of leaders, moves of partitions and more partitions."""

from __future__ import annotations

from typing import Final

MOVES: Final[dict[str, str]] = {
    ". Their number can only grow.": "。分区数只能增加。",
    "1. What to move, and where to": "1. 移动什么，移到哪里",
    "3. Carry it out": "3. 执行",
    ": wait until that is done.": "：请等待其完成。",
    "A replica that was not in sync becomes the leader: records that only the others have are lost for good. "
    "Start a broker of the in-sync set instead, if that is possible.": (
        "未同步的副本将成为首领：仅存在于其他副本中的记录将永久丢失。如有可能，请改为启动同步副本集（ISR）中的 Broker。"
    ),
    "Add partitions": "增加分区",
    "Added": "新增",
    "All partitions have a leader.": "所有分区均有首领。",
    "Another plan": "换一个计划",
    "Brokers now": "当前 Broker",
    "Bytes a second that the moves may cause on each broker. Remove it on the page of moves when all is done.": (
        "移动在每个 Broker 上允许产生的每秒字节数。全部完成后，请在移动页面上移除限流。"
    ),
    "Cancel the move of": "取消移动：",
    "Copied": "已复制",
    "Copied of": "已复制：",
    "Copied of all moves": "所有移动的已复制比例",
    "Each partition is led by its preferred replica.": "每个分区的首领都是其首选副本。",
    "Elect leaders": "选举首领",
    "Elect leaders of": "选举首领：",
    "Election": "选举方式",
    "How much was copied is not known.": "已复制的数据量未知。",
    "In sync": "同步副本",
    "Keep it until the moves are done.": "移动完成之前请保留限流。",
    "Keys that come from now on may go to other partitions than before, so that the order of a key's records "
    "is broken once.": ("此后写入的键可能进入与之前不同的分区，因此同一键的记录顺序会被打乱一次。"),
    "More partitions": "增加分区",
    "More partitions of": "增加分区：",
    "Move partitions": "移动分区",
    "Moves in progress": "进行中的移动",
    "New brokers": "新 Broker",
    "New leader": "新首领",
    "No move is in progress: it is not needed any more, and slows brokers that catch up.": (
        "没有进行中的移动：限流已不再需要，并且会拖慢正在追赶的 Broker。"
    ),
    "No partition moves.": "没有正在移动的分区。",
    "Partitions to have": "目标分区数",
    "Plan": "规划",
    "Plan a move": "规划移动",
    "Preferred leaders now": "当前首选首领",
    "Progress": "进度",
    "Remove throttles": "移除限流",
    "Removed": "移除",
    "Replicas now": "当前副本",
    "Replication for moves is throttled on broker": "移动产生的副本同步已限流，Broker：",
    "Spread": "分布",
    "This plan moves nothing: everything is where it would be.": "此计划不移动任何内容：所有分区都已在目标位置。",
    "Throttle": "限流",
    "Throttles": "限流",
    "Throttles are not shown:": "无法显示限流：",
    "To copy": "待复制",
    "What would change": "将要更改的内容",
    "after": "之后",
    "copied,": "已复制，",
    "has": "有",
    "names, or * for all": "名称，或 * 表示全部",
    "not led by the preferred replica": "的首领不是首选副本",
    "of them can have one elected. Nothing was changed yet.": "个可以选出首领。尚未更改任何内容。",
    "of these topics move already, among them": "（属于这些主题）已在移动中，其中包括",
    "over racks": "跨机架",
    "preferred replica": "首选副本",
    "racks do not matter": "不考虑机架",
    "replica": "个副本",
    "to be emptied": "待清空",
    "unclean: any live replica": "unclean（不洁选举）：任意存活的副本",
    "with": "，每个分区",
    "without a leader": "没有首领",
    "would be copied. Nothing was changed yet.": "的数据。尚未更改任何内容。",
    "would move,": "将被移动，将复制",
}
