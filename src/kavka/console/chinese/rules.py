"""Mistakes of a file of rules, by their templates."""

from __future__ import annotations

from typing import Final

RULES: Final[dict[str, str]] = {
    # The file
    "line {line}: {mistake}": "第 {line} 行：{mistake}",
    "it cannot be read: {error}": "无法读取：{error}",
    "the file is not UTF-8": "文件不是 UTF-8 编码",
    "it is not UTF-8": "不是 UTF-8 编码",
    "not valid YAML: {reason}": "不是有效的 YAML：{reason}",
    "not valid YAML: it is nested too deeply": "不是有效的 YAML：嵌套过深",
    "not valid YAML: an anchor that holds itself": "不是有效的 YAML：锚点包含自身",
    "not valid YAML: a value does not fit its tag": "不是有效的 YAML：值与其标签不符",
    "not valid YAML: a text has half of a character": "不是有效的 YAML：文本中有半个字符",
    "it has more than {most:,} values, with those of aliases": "包括别名展开的值在内，值超过 {most:,} 个",
    "{key!r} stands twice": "{key!r} 出现了两次",
    "the file": "文件",
    "the file has no list `rules`": "文件中没有列表 `rules`",
    "`{key}` is a list": "`{key}` 应为列表",
    "an entry of `{key}` begins with `{name_key}: NAME`": "`{key}` 的每一项以 `{name_key}: 名称` 开头",
    "two entries of `{key}` are named {name!r}": "`{key}` 中有两项名为 {name!r}",
    "{where} is no mapping": "{where}应为映射",
    "{where} has no {key!r}; it may have {allowed}": "{where}不能有 {key!r}，可以有：{allowed}",
    "address is a URL such as https://kafka.example.org": "address 应为 URL，例如 https://kafka.example.org",
    "{key} is a name or a list of names": "{key} 应为名称或名称列表",
    # A rule
    "the rule {name}": "规则 {name} ",
    "{rule}: {key} is one of {listed}, not {value!r}": "{rule}：{key} 应为 {listed} 之一，而不是 {value!r}",
    "{rule}: advice is a text": "{rule}：advice 应为文本",
    "{rule}: there is no channel {channel!r}": "{rule}：没有通知渠道 {channel!r}",
    "{rule}: {watch} has {what}": "{rule}：{watch} 应使用{what}",
    "no subjects": "（无对象）",
    "{rule}: {address!r} is no address such as broker-1.example.org:9093": (
        "{rule}：{address!r} 不是地址，例如 broker-1.example.org:9093"
    ),
    "{rule} names no certificates: [host:port]": "{rule}没有指定 certificates：[host:port]",
    "{rule}: {watch} has no threshold": "{rule}：{watch} 没有阈值",
    "{rule}: {watch} has one of: {wanted}": "{rule}：{watch} 使用以下之一：{wanted}",
    "{rule} has no threshold: `{wanted}`": "{rule}没有阈值：`{wanted}`",
    "{rule}: clear is beyond the threshold, so an alert would end while it is there": (
        "{rule}：clear 超过阈值，告警会在异常仍存在时结束"
    ),
    "{rule}: {key} is {form}, not {value!r}": "{rule}：{key} 应为{form}，而不是 {value!r}",
    "a share such as 85% or 0.85": "比例，例如 85% 或 0.85",
    "a time such as 90s, 5m or 24h": "时长，例如 90s、5m 或 24h",
    "a time such as 90s, 5m or 1h30m": "时长，例如 90s、5m 或 1h30m",
    "a number": "数字",
    # Maintenance
    "the maintenance {name}": "维护窗口 {name} ",
    "{where}: {day!r} is no day such as sunday": "{where}：{day!r} 不是星期名称，例如 sunday",
    "{where}: {zone!r} is no time zone such as Europe/Berlin": "{where}：{zone!r} 不是时区，例如 Europe/Berlin",
    '{where}: {key} is a time of the day such as "02:30"': '{where}：{key} 应为时刻，例如 "02:30"',
    # A channel
    "the channel {name}: {mistake}": "通知渠道 {name}：{mistake}",
    "a channel of mail has no {key!r}": "邮件渠道不能有 {key!r}",
    "{key} is one of {listed}, not {value!r}": "{key} 应为 {listed} 之一，而不是 {value!r}",
    "the shape pagerduty, and no other, has a `key` or `key_file`": (
        "只有 pagerduty 形式使用 `key` 或 `key_file`，并且必须有其一"
    ),
    "it needs a `webhook`, a `webhook_file` or `mail`": "需要 `webhook`、`webhook_file` 或 `mail`",
    "it has a shape or a body, not both": "shape 与 body 只能有其一",
    "body is a mapping or a list; it is sent as JSON": "body 应为映射或列表，以 JSON 发送",
    "there is no {key!r}; it may have {allowed}": "不能有 {key!r}，可以有：{allowed}",
    "it has {key} or {file}, not both": "{key} 与 {file} 只能有其一",
    "{key} is a text": "{key} 应为文本",
    "{key} has one line, not {lines}": "{key} 应只有一行，而不是 {lines} 行",
    "{path} cannot be read: {reason}": "无法读取 {path}：{reason}",
    "headers is a mapping of names to values": "headers 应为名称到值的映射",
    "{key} is a time such as 10s or 1d, not {value!r}": "{key} 应为时长，例如 10s 或 1d，而不是 {value!r}",
    "severities is a list of {listed}": "severities 应为列表，可取 {listed}",
    "{{{field}}} is not known; there are {fields}": "没有 {{{field}}}，可以使用：{fields}",
    "mail is a mapping with server, from and to": "mail 应为包含 server、from 和 to 的映射",
    "to is an address or a list of addresses": "to 应为地址或地址列表",
    "{address!r} is no address such as ops@example.org": "{address!r} 不是地址，例如 ops@example.org",
    "user and password belong together": "user 与 password 必须同时给出",
    "a password is sent with starttls or tls only": "只有使用 starttls 或 tls 时才发送密码",
    "server is a name and a port, such as mail.example.org:587": (
        "server 应为名称和端口，例如 mail.example.org:587"
    ),
    # Changes in the page
    "Edit the file itself: it is read again when it has changed.": "请直接编辑文件：更改后会重新读取。",
    "It was changed since this form was opened, so nothing was written.": (
        "自打开此表单以来文件已被更改，因此没有写入任何内容。"
    ),
    "Nothing was written. Correct the rule, or the file itself, and try again.": (
        "没有写入任何内容。请更正规则或文件本身，然后重试。"
    ),
    "Open the form again: it shows the rule as it is now.": "请重新打开表单：它会显示规则的当前内容。",
    "Save the default rules as a file, and start it with --rules FILE.": (
        "请将默认规则保存为文件，并使用 --rules FILE 启动。"
    ),
    "The console was started without --rules, so there is no file to change.": (
        "控制台启动时未使用 --rules，因此没有可更改的文件。"
    ),
    "The file of rules has changed meanwhile": "规则文件在此期间已更改",
    "The file of rules has no rule {name!r}.": "规则文件中没有规则 {name!r}。",
    "The file of rules was not changed": "规则文件未更改",
    "The file of rules would have mistakes": "规则文件会有错误",
    "The name of the rule.": "规则的名称。",
    "The rule was not deleted: the confirmation is not its name.": "规则未删除：确认内容不是其名称。",
    "The rule {alert} is right; nothing was written.": "规则 {alert} 正确；没有写入任何内容。",
    "The rule {alert} was added.": "已添加规则 {alert}。",
    "The rule {alert} was changed.": "已更改规则 {alert}。",
    "The rule {alert} was deleted, and its alerts end.": "已删除规则 {alert}，其告警结束。",
    "it cannot be read or written: {reason}": "无法读取或写入：{reason}",
    "it has no rule {name!r}": "其中没有规则 {name!r}",
    "the form of its YAML is not one that can be edited here": "其 YAML 的形式无法在此编辑",
    "{reason}, and {more} more.": "{reason}，另有 {more} 处。",
}
