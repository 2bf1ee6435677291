"""Outcomes of changes, and what keeps one from being made, by the templates of `kavka.console.sentences`."""

from __future__ import annotations

from typing import Final

OUTCOMES: Final[dict[str, str]] = {
    # Settings of brokers
    "Broker {text} is not in the cluster.": "Broker {text} 不在集群中。",
    "The setting was not changed: the confirmation is not {target}.": "配置未更改：确认内容不是 {target}。",
    "all brokers": "所有 Broker ",
    "broker {broker}": "Broker {broker} ",
    "change it": "更改",
    "it keeps the value of its own": "保留自己的值",
    "the broker does not list it": "Broker 未列出此配置",
    "{name} has no new value.": "{name} 没有新值。",
    "{name} is a secret: give it as `secret`, which is on no page.": (
        "{name} 是机密：请以 `secret` 提交，任何页面都不会显示。"
    ),
    "{name} of {of} has a new value.": "{of}的 {name} 已有新值。",
    "{name} of {of} is now {value!r}.": "{of}的 {name} 现为 {value!r}。",
    "{name} of {of} was removed: what is below it holds.": "已移除{of}的 {name}：其下一级的值生效。",
    "{text!r} is no id of a broker, and not the word all.": "{text!r} 既不是 Broker ID，也不是 all。",
    # ACLs, users, quotas
    "An address has quotas of its own: leave user and client id empty.": "地址有单独的配额：请将用户和客户端 ID 留空。",
    "Neither user nor client id nor address is named.": "没有指定用户、客户端 ID 或地址。",
    "The ACL was added: {acl}.": "已添加 ACL：{acl}。",
    "The ACL was not removed: the confirmation is not its principal.": "未移除 ACL：确认内容不是其主体。",
    "The ACL was removed: {acl}.": "已移除 ACL：{acl}。",
    "The brokers have no authorizer (authorizer.class.name): every client may do everything.": (
        "Broker 没有授权器（authorizer.class.name）：每个客户端都可以执行任何操作。"
    ),
    "The credential was not removed: the confirmation is not the user's name.": "未移除凭据：确认内容不是用户名。",
    "The quota {key} of {named} is now {value:g}.": "{named} 的配额 {key} 现在为 {value:g}。",
    "The quota {key} of {named} was removed.": "已移除 {named} 的配额 {key}。",
    "The two passwords are not the same.": "两次输入的密码不一致。",
    "There is no ACL {acl}.": "没有 ACL：{acl}。",
    "Type both again.": "请重新输入两次。",
    "User {user!r} has no credential for {mechanism}.": "用户 {user!r} 没有 {mechanism} 的凭据。",
    "User {user} can no longer log in by {mechanism}.": "用户 {user} 无法再通过 {mechanism} 登录。",
    "User {user} has a new password for {mechanism}.": "用户 {user} 已有新的 {mechanism} 密码。",
    "address {name}": "地址 {name}",
    "bytes a second that are read, on each broker": "每个 Broker 上每秒读取的字节数",
    "bytes a second that are written, on each broker": "每个 Broker 上每秒写入的字节数",
    "client id {name}": "客户端 ID {name}",
    "name is missing: the name of the resource, or * for all.": "缺少 name：资源的名称，* 表示全部。",
    "new connections a second, of addresses only": "每秒新建的连接数，仅适用于地址",
    "partitions a second that are created and deleted": "每秒创建和删除的分区数",
    "password is missing.": "缺少 password。",
    "per cent of a broker's time, 100 for each of its threads": "占 Broker 时间的百分比，每个线程为 100",
    "remove it": "移除",
    "user is missing: the name of the user.": "缺少 user：用户的名称。",
    "user {name}": "用户 {name}",
    "user {user}, client id {client}": "用户 {user}、客户端 ID {client}",
    "value is {text!r}, not a number.": "value 为 {text!r}，不是数字。",
    "value is {text}, and can be a number above 0.": "value 为 {text}，应为大于 0 的数字。",
    "{DEFAULT_NAME} names all others.": "{DEFAULT_NAME} 表示其他所有对象。",
    "{fault}.": "{fault}。",
    "{permission} {operation} on {kind} {name} for {principal} from {host}": (
        "{permission} {operation}，资源 {kind} {name}，主体 {principal}，来自 {host}"
    ),
    # Alerts
    "Alerts {alert} of {subject} are silenced for {text}.": "{subject} 的告警 {alert} 已静默 {text}。",
    "Correct the channel in the file of rules, which is read again at the next look.": (
        "请在规则文件中更正该通知渠道，下一次查看时会重新读取该文件。"
    ),
    "End some.": "请结束其中一些。",
    "It may be over: look at the list.": "它可能已结束：请查看列表。",
    "The channel {name} did not take the test": "通知渠道 {name} 未接受测试",
    "The channel {name} took the test: {answer}.": "通知渠道 {name} 已接受测试：{answer}。",
    "The silence has ended.": "静默已结束。",
    "The silence would be over already.": "该静默的结束时间已过。",
    "There are {silences} silences.": "已有 {silences} 个静默。",
    "There is no channel {name!r}.": "没有通知渠道 {name!r}。",
    "There is no such silence.": "没有此静默。",
    "for is {text!r}, not a time from 1m to 90d such as 2h.": "for 为 {text!r}，不是 1m 到 90d 之间的时长，例如 2h。",
    "{target} answered: {text}.": "{target} 的响应：{text}。",
    # The audit, pipelines
    "The brokers write no audit into a topic. kavka's brokers do with the settings kavka.audit.log and "
    "kavka.audit.topic; Apache Kafka's have none. Name a topic that another program writes in the same form, if there "
    "is one.": (
        "Broker 没有将审计写入主题。kavka 的 Broker 可通过设置 kavka.audit.log 和 kavka.audit.topic 写入；"
        "Apache Kafka 的 Broker 没有此功能。如果有其他程序以相同格式写入的主题，请指定该主题。"
    ),
    "The cluster has no topic {topic}: no pipeline has reported to it. `kavka pipelines run` reports, unless it runs "
    "with --no-progress-topic.": (
        "集群中没有主题 {topic}：还没有流水线向其上报状态。`kavka pipelines run` 会上报，"
        "除非使用 --no-progress-topic 运行。"
    ),
    "The topic {topic} is not there yet: brokers create it with the first line.": (
        "主题 {topic} 尚不存在：Broker 会在写入第一行时创建它。"
    ),
    "{count} lines were too many and are missing": "有 {count} 行因过多而缺失",
    # Brokers, elections, moves
    ", at {rate:,} bytes a second of each broker": "，每个 Broker 每秒 {rate:,} 字节",
    "; {failed} could not be held, the first: {first}": "；{failed} 个未能进行，第一个：{first}",
    "Ask for another plan.": "请换一个计划。",
    "Choose more brokers.": "请选择更多 Broker。",
    "It may be done: look at the topic.": "它可能已完成：请查看主题。",
    "Its brokers are {brokers}.": "其 Broker 为 {brokers}。",
    "Look again.": "请再次查看。",
    "Look at the plan again.": "请再次查看计划。",
    "No leader was elected: an unclean election loses records, and was not confirmed.": (
        "未选举首领：不洁选举会丢失记录，且未经确认。"
    ),
    "No such move is in progress.": "没有进行中的此移动。",
    "The broker is not in the cluster.": "该 Broker 不在集群中。",
    "The cluster has changed": "集群已发生变化",
    "The cluster has no broker {text}.": "集群中没有 Broker {text}。",
    "The move of {named} was cancelled: its brokers are those of before.": (
        "已取消 {named} 的移动：其 Broker 与之前相同。"
    ),
    "The plan is not the one that was looked at: topics or brokers have changed since.": (
        "该计划不是之前查看的计划：主题或 Broker 此后已发生变化。"
    ),
    "The plan moves nothing.": "该计划不移动任何内容。",
    "The throttles of moves were removed from all brokers and topics.": "已从所有 Broker 和主题移除移动的限流。",
    "There is no partition to elect a leader for.": "没有需要选举首领的分区。",
    "There is no topic {missing!r}.": "没有主题 {missing!r}。",
    "Untick the spread over racks.": "请取消勾选跨机架分布。",
    "Wait, or cancel the move.": "请等待，或取消该移动。",
    "hold it": "进行选举",
    "topics is missing: the topics to move.": "缺少 topics：要移动的主题。",
    "{count} partition{s_have} leader, by {kind} election{rest}.": "{count} 个分区已通过 {kind} 选举产生首领{rest}。",
    "{count} partition{s} began to move{throttled}.": "{count} 个分区已开始移动{throttled}。",
    "{missing!r} is no broker of the cluster.": "{missing!r} 不是集群的 Broker。",
    "{moving} is moving already.": "{moving} 已在移动中。",
    "{text!r} is no id of a broker.": "{text!r} 不是 Broker 的 ID。",
    # Topics
    "Topic {name} could be created.": "可以创建主题 {name}。",
    "Topic {name} was created.": "已创建主题 {name}。",
    "Topic {topic} could have {total} partitions.": "主题 {topic} 可以有 {total} 个分区。",
    "Topic {topic} has {total} partitions now.": "主题 {topic} 现在有 {total} 个分区。",
    "Topic {topic} was deleted, with all its records.": "已删除主题 {topic} 及其所有记录。",
    "The topic was not deleted: the confirmation is {typed!r}, not its name.": (
        "未删除主题：确认内容为 {typed!r}，不是其名称。"
    ),
    "delete it": "删除",
    "Group {group_id} was deleted, with its offsets.": "已删除消费组 {group_id} 及其偏移量。",
    "The group was not deleted: the confirmation is {typed!r}, not its id.": (
        "未删除消费组：输入的是 {typed!r}，不是它的 ID。"
    ),
    "The group {group_id!r} was not deleted: it is {state}.": (
        "未删除消费组 {group_id!r}：其状态为 {state}。"
    ),
    "name is missing: the setting to change.": "缺少 name：要更改的设置。",
    "total is missing: the number of partitions to have.": "缺少 total：目标分区数。",
    "{line!r} is no setting such as retention.ms=3600000.": "{line!r} 不是 retention.ms=3600000 这样的设置。",
    "{name} of {topic} has its default again.": "{topic} 的 {name} 已恢复默认值。",
    "{name} of {topic} is now {value!r}.": "{topic} 的 {name} 现在为 {value!r}。",
    # Groups, transactions
    "Give a number: the offset, or by how many records.": "请给出一个数字：偏移量，或移动的记录数。",
    "It may have ended: search again.": "它可能已结束：请重新查找。",
    "No transaction that begins at offset {offset} is open in {key}.": (
        "{key} 中没有从偏移量 {offset} 开始且未结束的事务。"
    ),
    "Offsets of {group_id!r} were not changed: it is {state}, and its members would commit their own over them.": (
        "未更改 {group_id!r} 的偏移量：其状态为 {state}，成员提交的偏移量会覆盖更改。"
    ),
    "Stop its members, and try again when it is empty.": "请停止其成员，待其为空后重试。",
    "The group has members": "该消费组有成员",
    "The kind {kind} has a name.": "类型 {kind} 需要名称。",
    "The kind {kind} has no name.": "类型 {kind} 没有名称。",
    "The plan is empty: the group has no offsets. Name a topic.": "计划为空：该消费组没有偏移量。请指定一个主题。",
    "The producer of {name} was fenced, and its open transaction is aborted.": (
        "{name} 的生产者已被隔离，其未结束的事务已中止。"
    ),
    "The transaction of producer {producer_id} was aborted in {key}.": (
        "已在 {key} 中中止生产者 {producer_id} 的事务。"
    ),
    "The transaction was not aborted: the confirmation is not the partition.": "未中止事务：确认内容不是该分区。",
    "The transaction was not ended: the confirmation is not the transactional id.": (
        "未结束事务：确认内容不是该事务 ID。"
    ),
    "There is no group {group_id!r}.": "没有消费组 {group_id!r}。",
    "There is no transactional id {name!r}.": "没有事务 ID {name!r}。",
    "abort it there": "在该处中止",
    "end it": "结束事务",
    "partition or start_offset is missing.": "缺少 partition 或 start_offset。",
    "scenario is missing; it is one of: {listed}.": "缺少 scenario；它是以下之一：{listed}。",
    "time is missing: the time from which on to read.": "缺少 time：开始读取的时间。",
    "topic is missing: partition needs it.": "缺少 topic：partition 需要它。",
    "{count} offset{s} of {group_id} were set {scenario}.": "已将 {group_id} 的 {count} 个偏移量设置{scenario}。",
    "{error} that could be shifted: choose another scenario.": "{error}，无法移动：请选择其他方式。",
    # Records
    "Copy the record instead.": "请改为复制该记录。",
    "Its partitions are 0 to {count}.": "其分区为 0 到 {count}。",
    "Look at the topic.": "请查看主题。",
    "Retention removes records, so older links end here.": "记录会按保留策略删除，因此较旧的链接到此为止。",
    "The copy would be a second record": "副本将成为第二条记录",
    "The record was written to {topic}, partition {partition}, offset {offset}.": (
        "记录已写入 {topic}，分区 {partition}，偏移量 {offset}。"
    ),
    "The {name} has {data:,} bytes, more than a form takes.": "{name} 有 {data:,} 字节，超过表单的上限。",
    "Tick that this is meant, or name another topic.": "请勾选确认，或指定其他主题。",
    "Topic {name} has no partition {wanted}.": "主题 {name} 没有分区 {wanted}。",
    "Topic {topic} has no partition {partition}.": "主题 {topic} 没有分区 {partition}。",
    "Topic {topic} has no partition {partition}: it has {count}.": (
        "主题 {topic} 没有分区 {partition}：它有 {count} 个分区。"
    ),
    "Write it like $.user.id = 42.": "请写成 $.user.id = 42 的形式。",
    "at: {error}.": "at：{error}。",
    "from is {source!r}, not a record such as 0:123.": "from 为 {source!r}，不是 0:123 这样的记录。",
    "header {name}": "消息头 {name}",
    "offset is missing: the offset to begin at.": "缺少 offset：开始的偏移量。",
    "path: {error}.": "path：{error}。",
    "time is missing: the time to begin at.": "缺少 time：开始的时间。",
    "to is missing: the topic that gets the copy.": "缺少 to：接收副本的主题。",
    "{field} is not {form}: {error}.": "{field} 不是 {form}：{error}。",
    "{line!r} is no header such as name: value.": "{line!r} 不是 name: value 这样的消息头。",
    "{name} is no JSON: {error}.": "{name} 不是 JSON：{error}。",
    "{target} is the record's own topic: its readers would see it twice.": (
        "{target} 是该记录自身的主题：其读取者会看到两次。"
    ),
    "{text!r} is no {name}.": "{text!r} 不是有效的 {name}。",
    "{topic}-{partition} has no record at offset {offset}: its offsets are {starts} to {ends}, and some may be removed "
    "by compaction, or markers of transactions.": (
        "{topic}-{partition} 在偏移量 {offset} 处没有记录：其偏移量为 {starts} 到 {ends}，"
        "其中一些可能已被压实移除，或是事务标记。"
    ),
    # Schemas
    "Subject {subject} was deleted, with {count} version{s}; its schemas stay readable by their ids.": (
        "已删除 Subject {subject} 及其 {count} 个版本；其 Schema 仍可通过 ID 读取。"
    ),
    "The compatibility level of {subject} is now {level}.": "{subject} 的兼容性级别现在为 {level}。",
    "The schema is not compatible": "该 Schema 不兼容",
    "The subject was not deleted: the confirmation is not its name.": "未删除 Subject：确认内容不是其名称。",
    "This console was started without --schema-registry, so it shows no schemas.": (
        "此控制台启动时没有指定 --schema-registry，因此不显示 Schema。"
    ),
    "name or schema is missing.": "缺少 name 或 schema。",
    "{subject} does not take it: {reasons}.": "{subject} 不接受它：{reasons}。",
    "{subject} has the schema, with id {schema_id}.": "{subject} 已有该 Schema，ID 为 {schema_id}。",
    "{subject} would take this schema.": "{subject} 可以接受此 Schema。",
    # SQL
    "Ask for less, or use `kavka sql`.": "请减少查询的内容，或使用 `kavka sql`。",
    "Correct the statement and run it again.": "请更正语句后再次运行。",
    "It ended at its bound of rows": "已达到行数上限",
    "It ended at its bound of time, so rows may be missing": "已达到时间上限，因此可能缺少行",
    "Read no topic": "没有读取主题",
    "Read the first of {all:,} offsets": "已读取 {all:,} 个偏移量中的最初部分",
    "Read {read:,} of {all:,} offsets": "已读取 {all:,} 个偏移量中的 {read:,} 个",
    "That is the whole result": "这是全部结果",
    "The engine's process ended: {last}.": "引擎的进程已结束：{last}。",
    "The statement could not be run": "无法运行该语句",
    "The statement failed": "语句失败",
    "Too many statements": "语句过多",
    "Wait until one has ended, or stop it.": "请等待其中一个结束，或停止它。",
    "it says nothing": "没有说明",
    "{library} is missing: install it with `pip install 'kavka[sql]'`, and start the console again.": (
        "缺少 {library}：请使用 `pip install 'kavka[sql]'` 安装，然后重新启动控制台。"
    ),
    "{read} in {seconds:.1f} s. {end}.": "{read}，用时 {seconds:.1f} 秒。{end}。",
    "{running} statements run in this console at this moment, which is its limit.": (
        "此控制台目前有 {running} 条语句在运行，已达上限。"
    ),
}
