"""Refusals, failures and what to do about them, by the templates of `kavka.console.sentences`."""

from __future__ import annotations

from typing import Final

REFUSALS: Final[dict[str, str]] = {
    # Values of requests
    "Correct the value and try again.": "请更正该值后重试。",
    "Correct the values and try again.": "请更正这些值后重试。",
    "The body has no length, or more than {most_bytes} bytes.": "请求体没有长度，或超过 {most_bytes} 字节。",
    "The body has no user and password.": "请求体中没有用户和密码。",
    "The body is no JSON object.": "请求体不是 JSON 对象。",
    "Type {wanted} to {act}.": "请输入 {wanted} 以{act}。",
    "from {low}": "不小于 {low} 的数",
    "from {low} to {high}": "介于 {low} 和 {high} 之间的数",
    "to {high}": "不大于 {high} 的数",
    "The file of the history cannot be used": "历史文件无法使用",
    "Look whether its disk is full, or the file damaged: then start the console with another one, --history FILE.": (
        "请检查其磁盘是否已满，或文件是否损坏：若已损坏，请使用其他文件启动控制台：--history FILE"
    ),
    "The body is no form: {error}.": "请求体不是表单：{error}。",
    "{name} has half of a character (a lone surrogate).": "{name} 含有半个字符（孤立的代理项）。",
    "{name} has more than {most} bytes.": "{name} 超过 {most} 字节。",
    "{name} is an object or a list of JSON, not one value.": "{name} 是 JSON 对象或列表，而不是单个值。",
    "{name} has more than {most} characters.": "{name} 超过 {most} 个字符。",
    "{name} is before 1970.": "{name} 早于 1970 年。",
    "{name} is missing: {summary}": "缺少 {name}：{summary}",
    "{name} is {number}, and can be {bounds}.": "{name} 为 {number}，应为{bounds}。",
    "{name} is {text!r}, and can be one of: {listed}.": "{name} 为 {text!r}，应为以下之一：{listed}。",
    "{name} is {text!r}, and can be true or false.": "{name} 为 {text!r}，应为 true 或 false。",
    "{name} is {text!r}, not a time such as 2026-11-26T14:00 or milliseconds since 1970.": (
        "{name} 为 {text!r}，不是 2026-11-26T14:00 这样的时间，也不是自 1970 年起的毫秒数。"
    ),
    "{name} is {text!r}, not a whole number.": "{name} 为 {text!r}，不是整数。",
    "{name} is {text}, not a time in milliseconds.": "{name} 为 {text}，不是以毫秒表示的时间。",
    # Parameters that are missing
    "The first offset of the transaction.": "事务的第一个偏移量。",
    "The id of the group.": "消费组的 ID。",
    "The id of the silence.": "静默的 ID。",
    "The name of the channel.": "通知渠道的名称。",
    "The name of the subject.": "Subject 的名称。",
    "The name of the topic.": "主题的名称。",
    "The name of the user.": "用户的名称。",
    "The partition.": "分区。",
    "The principal, such as User:alice; User:* for all.": "主体，例如 User:alice；User:* 表示全部。",
    "The topic.": "主题。",
    "The transactional id.": "事务 ID。",
    # The cluster
    "Brokers were asked and did not answer in time: {reason}.": "已询问 Broker，但未及时响应：{reason}。",
    "Check that a broker runs at {servers} and that this machine may connect to it. The console connects by itself "
    "once one answers.": (
        "请检查 {servers} 处是否有 Broker 在运行，以及本机是否可以连接。一旦有 Broker 响应，控制台会自动连接。"
    ),
    "Check the credential in the file of --command-config, and start the console again.": (
        "请检查 --command-config 文件中的凭据，然后重新启动控制台。"
    ),
    "Choose another name.": "请选择其他名称。",
    "Give the console's principal the ACL that is missing (see `kavka acls`), or use another credential.": (
        "请为控制台的主体添加缺少的 ACL（参见 `kavka acls`），或使用其他凭据。"
    ),
    "Its brokers are too old for it.": "其 Broker 的版本过旧。",
    "Look at the list of brokers.": "请查看 Broker 列表。",
    "Look at the list of groups.": "请查看消费组列表。",
    "Look at the list of topics.": "请查看主题列表。",
    "Look at the list.": "请查看列表。",
    "No broker can be reached": "无法连接任何 Broker",
    "Not found": "未找到",
    "Stop the members of the group first.": "请先停止该消费组的成员。",
    "The brokers refuse the console's login": "Broker 拒绝了控制台的登录",
    "The cluster answers too slowly": "集群响应过慢",
    "The cluster cannot do that yet": "集群目前还不能执行该操作",
    "The cluster refuses this": "集群拒绝了此操作",
    "The cluster refuses this now": "集群目前拒绝此操作",
    "The console has made a mistake": "控制台出错",
    "The console is not authorised for this": "控制台没有执行此操作的授权",
    "The group has members: stop them first, or they commit over the change.": (
        "该消费组有成员：请先停止它们，否则它们提交的偏移量会覆盖此更改。"
    ),
    "The log of the console has the details; please report them.": "详细信息在控制台的日志中；请报告。",
    "This cluster cannot do that": "此集群不支持该操作",
    "This request cannot be answered": "无法处理此请求",
    "Topics are created and deleted by others, too: look at the list of topics.": (
        "其他人也会创建和删除主题：请查看主题列表。"
    ),
    "Try again.": "请重试。",
    "Try again. If it stays so, look at the brokers' logs and their load.": (
        "请重试。如果情况依旧，请查看 Broker 的日志和负载。"
    ),
    "Wait until the group is stable.": "请等待消费组稳定。",
    "no answer in time": "未及时响应",
    "{code}: {reason}": "{code}：{reason}",
    "{kind}: {error}": "{kind}：{error}",
    # Logins and roles
    " on all topics and groups": "（对所有主题和消费组）",
    " on the topic {topic!r}": "（对主题 {topic!r}）",
    " on this group": "（对此消费组）",
    ", and no mask that holds": "，且没有生效的掩码",
    "An administrator sets a new password with `kavka console-users --set`.": (
        "管理员可使用 `kavka console-users --set` 设置新密码。"
    ),
    "Ask an administrator of the console for a grant.": "请向控制台的管理员申请授权。",
    "Begin the login again; if it stays so, look at the console's log.": (
        "请重新登录；如果情况依旧，请查看控制台的日志。"
    ),
    "It": "此操作",
    "It needs the role {role} on the group {group!r}.": "需要对消费组 {group!r} 的 {role} 角色。",
    "The group {group!r} has offsets in topics of which you are not administrator.": (
        "消费组 {group!r} 在您不是管理员的主题中有偏移量。"
    ),
    "It needs the role {role} on the topic {topic!r}.": "需要对主题 {topic!r} 的 {role} 角色。",
    "It needs the role {role}{on}; your highest role is {highest}.": (
        "需要 {role} 角色{on}；您的最高角色是 {highest}。"
    ),
    "It was started to look, not to change.": "它以只读方式启动，不能更改任何内容。",
    "Log in. Programs send user and password as JSON to /api/login, and then the cookie that they get.": (
        "请登录。程序先将用户和密码以 JSON 发送到 /api/login，之后发送得到的 Cookie。"
    ),
    "No OpenID provider is named.": "没有指定 OpenID 提供方。",
    "No role was granted to you": "您没有被授予任何角色",
    "Not logged in": "未登录",
    'Send JSON such as {"user": "anna", "password": "..."}.': '请发送 JSON，例如 {"user": "anna", "password": "..."}。',
    "The history of the {kind} needs the role viewer on all topics and groups.": (
        "查看 {kind} 的历史需要对所有主题和消费组的 viewer 角色。"
    ),
    "The login is right, and no grant of the console names you.": "登录信息正确，但控制台没有给您的授权。",
    "The session has ended, or there was none.": "会话已结束，或不存在会话。",
    "This console is read-only": "此控制台为只读",
    "Too many attempts": "尝试次数过多",
    "Try again in {wait_s} seconds.": "请在 {wait_s} 秒后重试。",
    "Try again, or ask an administrator.": "请重试，或联系管理员。",
    "Use a password.": "请使用密码。",
    "Use the commands, or a console without --read-only.": "请使用命令，或不带 --read-only 的控制台。",
    "User or password is wrong.": "用户或密码错误。",
    "You are not logged in": "您尚未登录",
    "Your role does not allow this": "您的角色不允许此操作",
    "none": "无",
    "{what} needs a role on all topics and groups{more}.": "{what} 需要对所有主题和消费组的角色{more}。",
    # Masks
    "A copy of a record of {topic} would lack what the masks of this console cover.": (
        "{topic} 的记录的副本会缺少被此控制台掩码覆盖的内容。"
    ),
    "A statement would read records past the masks of this console.": "语句会绕过此控制台的掩码读取记录。",
    "Ask an administrator for a role that masks do not hold for.": "请向管理员申请不受掩码限制的角色。",
    "Masks hold for you": "掩码对您生效",
    "Read the topic's page, or ask an administrator for a role that masks do not hold for.": (
        "请查看主题页面，或向管理员申请不受掩码限制的角色。"
    ),
    # The way to the console
    "A page of another site has made it.": "它由另一个网站的页面发出。",
    "Have the proxy set X-Forwarded-Proto, and send http to https.": (
        "请让代理设置 X-Forwarded-Proto，并将 http 重定向到 https。"
    ),
    "It did not come from a page of this console, or from one of an earlier run of it.": (
        "它不是来自此控制台的页面，或来自控制台之前一次运行时的页面。"
    ),
    "Load the page again and repeat it. Programs send JSON, with the header Content-Type: application/json.": (
        "请重新加载页面后重试。程序应发送 JSON，并带有标头 Content-Type: application/json。"
    ),
    "Open it by one of these names.": "请使用其中一个名称打开。",
    "Open the console in a tab of its own.": "请在单独的标签页中打开控制台。",
    "Open {origin}.": "请打开 {origin}。",
    "Open {origin}; a reverse proxy has to pass the header Host on.": "请打开 {origin}；反向代理必须传递 Host 标头。",
    "Start it with --proxy, --public-url and --access, or connect to it directly.": (
        "请使用 --proxy、--public-url 和 --access 启动，或直接连接。"
    ),
    "The connection does not come from the reverse proxy.": "连接不是来自反向代理。",
    "The request has a header of a reverse proxy, and the console was started for this machine alone.": (
        "请求带有反向代理的标头，但控制台启动时仅供本机使用。"
    ),
    "The request names the host {host!r}, and a console without a public address answers to localhost, 127.0.0.1 and "
    "[::1] alone.": "请求指定的主机为 {host!r}，而没有公共地址的控制台仅响应 localhost、127.0.0.1 和 [::1]。",
    "The request names the host {host!r}.": "请求指定的主机为 {host!r}。",
    "The reverse proxy does not say that TLS was used": "反向代理没有表明使用了 TLS",
    "This change was refused": "此更改被拒绝",
    "This console answers to its own name only": "此控制台仅响应自己的名称",
    "This console answers to its proxy only": "此控制台仅响应其代理",
    "This console answers to local names only": "此控制台仅响应本地名称",
    "This console is behind a proxy that it does not know": "此控制台位于未知的代理之后",
    "This request was refused": "此请求被拒绝",
    "X-Forwarded-Proto is not https.": "X-Forwarded-Proto 不是 https。",
    # The console itself
    "Begin at the overview.": "请从概览开始。",
    "Close one that follows a topic, or wait until a search has ended.": (
        "请关闭一个正在跟踪主题的页面，或等待某个搜索结束。"
    ),
    "Go back.": "请返回。",
    "Load the page again to see it as it is now.": "请重新加载页面以查看当前状态。",
    "Not possible": "无法执行",
    "Run it again.": "请再次运行。",
    "Stopped": "已停止",
    "The browser has left.": "浏览器已离开。",
    "The console has no page {path}.": "控制台没有页面 {path}。",
    "Too many readers": "读取者过多",
    "{detail}.": "{detail}。",
    "{open} pages of this console are shown live at this moment, which is its limit.": (
        "此控制台目前有 {open} 个页面在实时显示，已达上限。"
    ),
    "{readers} pages of this console read messages at this moment, which is its limit.": (
        "此控制台目前有 {readers} 个页面在读取消息，已达上限。"
    ),
    # The schema registry
    "A library is missing": "缺少库",
    "Change the schema, or the compatibility level of the subject.": "请更改 Schema，或更改该 Subject 的兼容性级别。",
    "Check that one runs at {url}.": "请检查 {url} 处是否有注册中心在运行。",
    "Check the file of --schema-registry-config.": "请检查 --schema-registry-config 指定的文件。",
    "Look at the list of subjects.": "请查看 Subject 列表。",
    "No schema registry": "没有 Schema 注册中心",
    "Start it with --schema-registry http://host:8081.": "请使用 --schema-registry http://host:8081 启动。",
    "Start the console again with it.": "请安装后重新启动控制台。",
    "The registry refuses this schema": "注册中心拒绝此 Schema",
    "The schema registry does not answer": "Schema 注册中心没有响应",
    "The schema registry refuses the console": "Schema 注册中心拒绝控制台",
    "The schema registry refuses this": "Schema 注册中心拒绝此操作",
    "This console was started without a schema registry.": "此控制台启动时没有指定 Schema 注册中心。",
}
