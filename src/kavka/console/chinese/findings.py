"""Findings of the overview, conditions and sentences of alerts, and notes of pages, by their templates."""

from __future__ import annotations

from typing import Final

FINDINGS: Final[dict[str, str]] = {
    # Conditions of alerts
    "a broker that has replicas, or that the rule names, is not in the cluster": (
        "拥有副本的 Broker，或规则指定的 Broker，不在集群中"
    ),
    "a broker's disks are full sooner, as they fill in six hours": (
        "按最近六小时的增长速度，距 Broker 的磁盘写满的时间低于阈值"
    ),
    "a certificate expires sooner": "距证书到期的时间低于阈值",
    "a flow of a pipeline has failed, or waits for its next start after a failure": (
        "流水线的某个流已失败，或在失败后等待下一次启动"
    ),
    "a flow that should run has not reported for longer": "应运行的流未上报状态的时间超过阈值",
    "a group has more records to read": "消费组待读取的记录数超过阈值",
    "a group has no member, and records wait": "消费组没有成员，且有记录等待读取",
    "a group reads, and its lag grows through a quarter of an hour": "消费组在读取，但其滞后在一刻钟内持续增长",
    "more of a broker's disks is used": "Broker 的磁盘使用率超过阈值",
    "more partitions of a topic have no leader": "主题中没有首领的分区数超过阈值",
    "more partitions of a topic lack replicas in sync": "主题中缺少同步副本的分区数超过阈值",
    "no broker is the controller": "没有 Broker 担任控制器",
    "no record came into a topic for longer": "主题没有新记录的时间超过阈值",
    "records are written to a topic faster, or slower": "写入主题的记录速率高于或低于阈值",
    "records wait, and a group's offset stands still for longer": "有记录等待读取，而消费组的偏移量停滞的时间超过阈值",
    "the console cannot look at the cluster": "控制台无法查看集群",
    "the oldest unread record of a flow is older": "流的最早未读记录的等待时间超过阈值",
    "the oldest unread record of a group is older": "消费组的最早未读记录的等待时间超过阈值",
    "the console cannot write its history": "控制台无法写入其历史",
    # Advice of alerts
    "Free space on the disk of the history's file, or mend it. Until then charts have a gap, and what is sent and "
    "silenced is known to this run of the console alone.": (
        "请释放历史文件所在磁盘的空间，或修复磁盘。在此之前图表会有空白，已发送和已静默的内容只有本次运行的控制台知道。"
    ),
    "The history cannot be written: {reason}.": "无法写入历史：{reason}。",
    "The history is kept.": "历史正在保存。",
    "Look at the broker's machine and its log, and start it again.": (
        "请查看该 Broker 所在的机器及其日志，并重新启动它。"
    ),
    "Look at the group's page which partitions are behind. Add members up to the number of partitions, or make the "
    "work on a record shorter.": (
        "请在消费组页面上查看哪些分区滞后。可增加成员，最多到分区数，或缩短处理每条记录的时间。"
    ),
    "Look at the log of the member that has this partition: it may hang, or fail at the same record again and again. "
    "A record that cannot be handled is seen from the committed offset on the group's page.": (
        "请查看持有此分区的成员的日志：它可能已挂起，或在同一条记录上反复失败。"
        "无法处理的记录可从消费组页面上的已提交偏移量处查看。"
    ),
    "Look at the topic's chart when it began, and which program writes more or less since.": (
        "请在主题的图表上查看何时开始，以及此后哪个程序写入得更多或更少。"
    ),
    "Look whether a broker is gone, or its disk or network is slow. Records are safe while one replica in sync "
    "remains.": (
        "请查看是否有 Broker 消失，或其磁盘或网络是否过慢。只要还有一个同步副本，记录就是安全的。"
    ),
    "Look whether brokers run and whether this machine reaches them.": (
        "请查看 Broker 是否在运行，以及本机能否连接它们。"
    ),
    "Look whether the programs that write to it run, and what their logs say.": (
        "请查看写入该主题的程序是否在运行，以及它们的日志。"
    ),
    "Look which topic grows. Shorten its retention, move replicas to other brokers, or add disks.": (
        "请查看哪个主题在增长。可缩短其保留时间，将副本移动到其他 Broker，或增加磁盘。"
    ),
    "No leader is elected meanwhile. Look at the brokers' logs, and at the registry or the controllers.": (
        "在此期间不会选举首领。请查看 Broker 的日志，以及注册服务或控制器。"
    ),
    "Nothing can be written or read there. Start the brokers that hold a replica in sync.": (
        "那里无法读写。请启动持有同步副本的 Broker。"
    ),
    "Records come faster than the group reads them. Add members up to the number of partitions, or make the work on a "
    "record shorter.": (
        "记录写入的速度快于消费组读取的速度。可增加成员，最多到分区数，或缩短处理每条记录的时间。"
    ),
    "Renew the certificate; brokers take a new key store without a restart.": (
        "请更新证书；Broker 无需重启即可使用新的密钥库。"
    ),
    "See the error with `kavka pipelines status`, mend the pipeline, and start it again.": (
        "请使用 `kavka pipelines status` 查看错误，修复流水线后重新启动。"
    ),
    "See the rates with `kavka pipelines status`; give the pipeline more cores.": (
        "请使用 `kavka pipelines status` 查看速率；为流水线分配更多核心。"
    ),
    "Shorten the retention of large topics, move replicas to other brokers, or add disks.": (
        "请缩短大主题的保留时间，将副本移动到其他 Broker，或增加磁盘。"
    ),
    "Start the group's program, or delete the group if it is not needed any more.": (
        "请启动该消费组的程序；如果不再需要，请删除该消费组。"
    ),
    "The run has died, or cannot reach the brokers: look at its log, and start it again.": (
        "运行已中断，或无法连接 Broker：请查看其日志，并重新启动。"
    ),
    # Sentences of alerts
    "Broker {controller} is the controller.": "Broker {controller} 是控制器。",
    "Broker {name} is in the cluster.": "Broker {name} 在集群中。",
    "Broker {name} is not in the cluster.": "Broker {name} 不在集群中。",
    "Flow {name} has reported nothing for {silent_s}.": "流 {name} 已有 {silent_s} 未上报状态。",
    "Flow {name} is {lag} behind.": "流 {name} 滞后 {lag}。",
    "Flow {name} is {state}.": "流 {name} 的状态为 {state}。",
    "Flow {name} is {state}: {error}": "流 {name} 的状态为 {state}：{error}",
    "Group {name} goes on.": "消费组 {name} 继续读取。",
    "Group {name} has committed nothing in {partition} for {time}, and records wait.": (
        "消费组 {name} 在 {partition} 中已有 {time} 没有提交，且有记录等待读取。"
    ),
    "Group {name} has no member, and {waits} records wait.": "消费组 {name} 没有成员，有 {waits} 条记录等待读取。",
    "Group {name} has {lag_records} records to read.": "消费组 {name} 有 {lag_records} 条记录待读取。",
    "Group {name} is {lag} behind, {lag_records} records.": "消费组 {name} 滞后 {lag}，共 {lag_records} 条记录。",
    "Group {name} is {state}.": "消费组 {name} 的状态为 {state}。",
    "Group {name} keeps up.": "消费组 {name} 能够跟上。",
    "It is no longer there.": "该对象已不存在。",
    "No broker is the controller.": "没有 Broker 担任控制器。",
    "The certificate of {address} is not known: {said}.": "无法获知 {address} 的证书：{said}。",
    "The certificate of {address} {said}.": "{address} 的证书{said}。",
    "The console cannot look at the cluster: {reason}.": "控制台无法查看集群：{reason}。",
    "The console reaches the cluster.": "控制台可以连接集群。",
    "The disk of broker {name} is not known for long enough.": "对 Broker {name} 的磁盘观察的时间还不够长。",
    "The disk of broker {name} {said}.": "Broker {name} 的磁盘{said}。",
    "The lag of group {name} grows by {growth}, to {lag} records.": (
        "消费组 {name} 的滞后以 {growth} 的速度增长，已达 {lag} 条记录。"
    ),
    "The rule was removed.": "该规则已被移除。",
    "Topic {name} has had no record for {idle_s}.": "主题 {name} 已有 {idle_s} 没有新记录。",
    "Topic {name}: {count} partition{s_have} {said}.": "主题 {name}：{count} 个分区{said}。",
    "cryptography is missing: install it with `pip install 'kavka[tls]'`": (
        "缺少 cryptography：请使用 `pip install 'kavka[tls]'` 安装"
    ),
    "does not fill": "没有增长",
    "expires in {left_s}": "将在 {left_s} 后到期",
    "fewer replicas in sync than assigned": "的同步副本少于已分配的副本",
    "has expired": "已到期",
    "is full in {left_s}, as it fills now": "按目前的增长速度，将在 {left_s} 后写满",
    "is not known": "情况未知",
    "is {share:.0%} used": "已使用 {share:.0%}",
    "it was not asked yet": "尚未查询",
    "no leader": "没有首领",
    "there": "存在",
    "there is no certificate": "没有证书",
    "{records_in} records are written to topic {name}.": "写入主题 {name} 的记录速率为 {records_in}。",
    # Rules, silences, times of maintenance
    "above {amount}": "高于 {amount}",
    "below {amount}": "低于 {amount}",
    "every day": "每天",
    # What lists in pages are lists of
    "ACLs": "条 ACL",
    "alerts": "条告警",
    "events": "个事件",
    "flows": "个流",
    "groups": "个消费组",
    "partitions": "个分区",
    "quotas": "个配额",
    "subjects": "个 Subject",
    "topics": "个主题",
    "transactional ids": "个事务 ID",
    "users": "个用户",
    "{days}, {day}": "{days}、{day}",
    "Monday": "星期一",
    "Tuesday": "星期二",
    "Wednesday": "星期三",
    "Thursday": "星期四",
    "Friday": "星期五",
    "Saturday": "星期六",
    "Sunday": "星期日",
    "maintenance {name}": "维护窗口 {name}",
    "silenced": "已静默",
    "silenced: {comment}": "已静默：{comment}",
    "{days} {begin:%H:%M} to {end:%H:%M} {zone}": "{days} {begin:%H:%M} 至 {end:%H:%M} {zone}",
    # The history
    "Alerts were not decided at the last look: {error}.": "最近一次查看时未能判定告警：{error}。",
    "Disk used": "磁盘使用率",
    "Falling behind: the lag grows by {growth_per_s}.": "落后：滞后以 {growth_per_s} 的速度增长。",
    "Free on the fullest broker": "最满的 Broker 的可用空间",
    "Lag in records": "滞后（记录数）",
    "Lag in time": "滞后（时间）",
    "Live brokers": "存活的 Broker",
    "Offline partitions": "离线分区",
    "Records read": "已读取记录",
    "Records read by groups": "消费组读取的记录",
    "Records written": "写入的记录",
    "Records written to leaders": "写入首领的记录",
    "Size": "大小",
    "Stored": "已存储",
    "Stuck: nothing was committed in {stuck_partition} for {stuck_s}, and records wait.": (
        "停滞：{stuck_partition} 已有 {stuck_s} 没有提交，且有记录等待读取。"
    ),
    "The group reads topics that your role does not cover: the lag is that in your topics, and the lag in time and the "
    "records read are not shown.": (
        "该消费组读取了您的角色未涵盖的主题：此处的滞后仅为您的主题中的滞后，不显示滞后时间和已读取记录。"
    ),
    "The last look at the cluster failed: {reason}. Until one succeeds, charts have a gap.": (
        "最近一次查看集群失败：{reason}。在下一次成功之前，图表中会有空缺。"
    ),
    "The newest look at the cluster was not kept whole. Users with a role on everything see the reason.": (
        "最近一次查看集群的结果未能完整保存。对所有主题和消费组拥有角色的用户可以看到原因。"
    ),
    "The last look was not kept: {error}.": "最近一次查看的结果未能保存：{error}。",
    "Under-replicated partitions": "副本不足的分区",
    "What is older is not shown: it is not known which topics the group had then.": (
        "更早的内容不显示：无法得知该消费组当时有哪些主题。"
    ),
    "{left_out} series are not kept: there are more than the history has room for.": (
        "有 {left_out} 个序列未保存：超出了历史的容量。"
    ),
    (
        "{left_out} series of a group in one topic are not kept: there are more than the history has room for. Users "
        "who see some topics of a group miss part of its lag."
    ): (
        "有 {left_out} 个“消费者组在单个主题中”的序列未保存：超出了历史的容量。只能看到消费者组部分主题的用户，"
        "看不到其完整的积压。"
    ),
    "{amount} d": "{amount} 天",
    "{amount} d {rest} h": "{amount} 天 {rest} 小时",
    "{amount} h": "{amount} 小时",
    "{amount} h {rest} min": "{amount} 小时 {rest} 分钟",
    "{amount} min": "{amount} 分钟",
    "{amount} min {rest} s": "{amount} 分钟 {rest} 秒",
    "{amount} s": "{amount} 秒",
    "{amount:.1f} s": "{amount:.1f} 秒",
    "{metric}: {latest} now, from {lowest} to {highest}": "{metric}：当前 {latest}，最低 {lowest}，最高 {highest}",
    "{path} has the history of another cluster, so nothing is kept of this one, and no alert is decided. Start the "
    "console with another file: --history FILE": (
        "{path} 中是另一个集群的历史，因此不保存此集群的历史，也不判定告警。请使用其他文件启动控制台：--history FILE"
    ),
    # What the script of the pages says
    "Follow live": "实时跟踪",
    "Following ended: the console or the cluster does not answer. Load the page again.": (
        "跟踪已结束：控制台或集群没有响应。请重新加载页面。"
    ),
    "Following: waiting for records …": "正在跟踪：等待记录…",
    "Following: {total} records since you began, {rate}/s.": "正在跟踪：开始以来 {total} 条记录，{rate}/s。",
    "Following: {total} records since you began, {rate}/s; {left} of the last half second are not shown.": (
        "正在跟踪：开始以来 {total} 条记录，{rate}/s；最近半秒内有 {left} 条未显示。"
    ),
    "Go on": "继续",
    "Not refreshed since {time}: the console or the cluster does not answer. Trying again.": (
        "自 {time} 起未刷新：控制台或集群没有响应。正在重试。"
    ),
    "Pause": "暂停",
    "Paused. Records since you began: {total}.": "已暂停。开始以来的记录：{total} 条。",
    "Time": "时间",
    # The overview
    "Broker {broker_id} gave no answer, so {missing}: {reason}.": (
        "Broker {broker_id} 未响应，因此{missing}：{reason}。"
    ),
    "the groups that it coordinates are missing": "缺少由它协调的消费组",
    "the sizes of its replicas are missing": "缺少其副本的大小",
    "the transactional ids that it coordinates are missing": "缺少由它协调的事务 ID",
    "Broker {broker_id} is not in the cluster, and {replicas} replicas are assigned to it.": (
        "Broker {broker_id} 不在集群中，有 {replicas} 个副本分配给它。"
    ),
    "Broker {broker_id}: {note}.": "Broker {broker_id}：{note}。",
    "No broker is the controller: no leader is elected.": "没有 Broker 担任控制器：不会选举首领。",
    "The disks of broker {broker_id} are {used:.0%} full: {free} of {total} are free.": (
        "Broker {broker_id} 的磁盘已使用 {used:.0%}：共 {total}，可用 {free}。"
    ),
    "not in the cluster at this moment": "目前不在集群中",
    "{count:,} partition{s_have}": "{count:,} 个分区",
    "{listed} and {more} more": "{listed} 及另外 {more} 个",
    "{partitions} fewer replicas in sync than assigned, in {names}.": (
        "{partitions}的同步副本少于已分配的副本，涉及 {names}。"
    ),
    "{partitions} no leader, in {names}: nothing can be written or read there.": (
        "{partitions}没有首领，涉及 {names}：那里无法读写。"
    ),
    # Groups, messages, moves
    "It ended at its bound of bytes": "已达到字节数上限",
    "It ended at its bound of records": "已达到记录数上限",
    "It ended at its bound of time": "已达到时间上限",
    "It ended with as many as were wanted": "已找到所需的数量",
    "Its members use a protocol that this page does not know, so they are not shown.": (
        "其成员使用此页面不认识的协议，因此不显示。"
    ),
    "Looked at {records} record{s} ({size}) of {partitions:,} partition{s_2}. {end}.": (
        "已查看 {partitions:,} 个分区的 {records} 条记录（{size}）。{end}。"
    ),
    "No member reads, and records wait.": "没有成员在读取，且有记录等待读取。",
    "Nothing came from partition{s} {partitions}, led by broker {leader}: {reason}.": (
        "分区 {partitions}（首领为 Broker {leader}）没有返回任何内容：{reason}。"
    ),
    "Nothing came from partition{s} {partitions}: there is no leader.": (
        "分区 {partitions} 没有返回任何内容：没有首领。"
    ),
    "That is all that the brokers which answered have": "这是已响应的 Broker 所拥有的全部内容",
    "That is all there is": "这是全部内容",
    "There are too many partitions to go on in all of them: choose one.": (
        "分区过多，无法在所有分区中继续：请选择一个。"
    ),
    "a live replica of {brokers} would lead, and what only others have is lost": (
        "{brokers} 中的一个存活副本将成为首领，仅存在于其他副本中的内容将丢失"
    ),
    "broker {candidate} is not in sync": "Broker {candidate} 未同步",
    "by a number of records": "移动若干记录",
    "no record is that young: the end": "没有这么新的记录：移到末尾",
    "no replica is live: start one of its brokers": "没有存活的副本：请启动其中一个 Broker",
    "to a time": "到某个时间",
    "to an offset": "到某个偏移量",
    "to the end": "到末尾",
    "to the first record": "到第一条记录",
    "{unread} of its partitions have records that wait and no member.": (
        "其中 {unread} 个分区有记录等待读取，但没有成员。"
    ),
    "{wanted} is after the end: the end": "{wanted} 在末尾之后：移到末尾",
    "{wanted} is before the first record: the first record": "{wanted} 在第一条记录之前：移到第一条记录",
}
