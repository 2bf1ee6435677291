"""The texts of searching, writing and copying records, and of schemas."""

from __future__ import annotations

from typing import Final

RECORDS: Final[dict[str, str]] = {
    ") and": "）和",
    "), value (": "）、值（",
    "; subjects without a level of their own are": "；没有单独设置级别的 Subject 为",
    "The beginning: export the record for all of it.": "仅为开头部分：导出该记录可得到全部内容。",
    "A condition on values that are JSON or have a schema: a path alone, or with = != &lt; &lt;= &gt; &gt;= "
    "or ~ (has the text)": (
        "针对 JSON 值或带有 Schema 的值的条件：单独的路径，或路径加 = != &lt; &lt;= &gt; &gt;= 或 ~（包含文本）"
    ),
    "As text": "以文本显示",
    "Base 64": "Base64",
    "Change and write again": "更改并重新写入",
    "Change record": "更改记录",
    "Compatibility": "兼容性",
    "Copy": "复制",
    "Copy record": "复制记录",
    "Delete subject": "删除 Subject",
    "Delete this subject": "删除此 Subject",
    "Format of the": "格式：",
    "Hexadecimal": "十六进制",
    "JSON path": "JSON 路径",
    "JSON, by the subject’s newest schema": "JSON，使用 Subject 的最新 Schema",
    "Key (": "键（",
    "Kind": "类型",
    "Level": "级别",
    "New record": "新建记录",
    "New schema": "新建 Schema",
    "New version": "新版本",
    "New version of": "新版本：",
    "Newest version": "最新版本",
    "No subject matches.": "没有匹配的 Subject。",
    "Producers cannot register or look up schemas in it until it is made again. Records stay readable: "
    "schemas keep their ids.": (
        "在重新创建之前，生产者无法在其中注册或查找 Schema。记录仍可读取：Schema 的 ID 保持不变。"
    ),
    "References": "引用",
    "Register": "注册",
    "Save as JSON": "保存为 JSON",
    "Schemas": "Schema",
    "Search subjects": "搜索 Subject",
    "Set level": "设置级别",
    "The record": "记录",
    "The registry at": "Schema 注册中心：",
    "The registry has no subjects.": "注册中心没有 Subject。",
    "To topic": "目标主题",
    "Type the name of the subject to confirm": "输入 Subject 的名称以确认",
    "Version": "版本",
    "Versions": "版本数",
    "Write": "写入",
    "Write record": "写入记录",
    "Write to": "写入：",
    "a line;": "；",
    "and write it again": "并重新写入",
    "are copied byte for byte. The copy has the present time.": "将逐字节复制。新记录的时间为当前时间。",
    "by the key": "由键决定",
    "compared with": "对比",
    "header": "个消息头",
    "id": "ID",
    "is hexadecimal.": "表示十六进制。",
    "it may be": "允许目标是",
    "itself": "本身",
    "null (no": "null（无 ",
    "stays as it is: this one comes behind it.": "保持不变：新记录将追加在其后。",
}
