"""A client that sends arbitrary bytes is answered, refused or disconnected: nothing else happens to the server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.core.znode_access import ALL, AccessList, AclEntry
from kavka.core.znodes import Create
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.client_identities import AccessSettings, ClientAuthentication
from kavka.registry.request_processor import ClientStatistics, RequestProcessor
from kavka.registry.znode_server import ZnodeServer
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, append, decode, encode
from kavka.wire.zookeeper.messages import (
    OPEN_ACL,
    CreateRequest,
    MultiHeader,
    OpCode,
    PathVersionRequest,
    PathWatchRequest,
    ReplyHeader,
    RequestHeader,
    SetDataRequest,
    SetWatches2Request,
    WatchTypeRequest,
)

PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/", "", "a", "//", "/\0", "/é"])
NUMBERS = st.integers(-3, 8)
DATA = st.none() | st.binary(max_size=5)
WRITES = (
    st.tuples(
        st.sampled_from([OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER]),
        st.builds(CreateRequest, PATHS, DATA, st.sampled_from([OPEN_ACL, []]), NUMBERS),
    )
    | st.tuples(st.just(OpCode.SET_DATA), st.builds(SetDataRequest, PATHS, DATA, NUMBERS))
    | st.tuples(
        st.sampled_from([OpCode.DELETE, OpCode.CHECK]),
        st.builds(PathVersionRequest, PATHS, NUMBERS),
    )
)
READS = st.tuples(
    st.sampled_from(
        [OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2, OpCode.SYNC]
    ),
    st.builds(PathWatchRequest, PATHS, st.booleans()),
)
WATCHES = st.tuples(
    st.sampled_from([OpCode.ADD_WATCH, OpCode.REMOVE_WATCHES, OpCode.CHECK_WATCHES]),
    st.builds(WatchTypeRequest, PATHS, NUMBERS),
) | st.tuples(
    st.just(OpCode.SET_WATCHES2),
    st.builds(SetWatches2Request, NUMBERS, *[st.lists(PATHS, max_size=2)] * 5),
)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    """A kind of request and a body that makes sense."""
    if draw(st.booleans()):
        kind, request = draw(WRITES | READS | WATCHES)
        return kind, bytes(encode(request))
    kind = draw(st.sampled_from([OpCode.MULTI, OpCode.MULTI_READ]))
    body = bytearray()
    for inner, request in draw(st.lists(WRITES if kind == OpCode.MULTI else READS, max_size=4)):
        append(body, MultiHeader(inner, False, -1))
        append(body, request)
    append(body, MultiHeader(-1, True, -1))
    return kind, bytes(body)


garbled = st.tuples(st.sampled_from(list(OpCode)) | st.integers(-20, 120), st.binary(max_size=40))


@given(st.lists(bodies() | garbled, max_size=12))
def test_every_request_has_one_response_or_ends_the_connection(
    requests: list[tuple[int, bytes]],
) -> None:
    znode_server = ZnodeServer(SystemClock(), SystemRandom())
    sent: list[bytearray] = []
    closed: list[bool] = []
    processor = RequestProcessor(
        znode_server,
        znode_server.create_session(None),
        ClientAuthentication(AccessSettings(), SystemRandom()).begin("127.0.0.1"),
        sent.append,
        lambda: closed.append(True),
        ClientStatistics(),
    )
    for xid, (kind, body) in enumerate(requests, 1):
        try:
            processor.handle(memoryview(bytes(encode(RequestHeader(xid, kind))) + body))
        except CorruptPacket:
            break
        replies = [decode(ReplyHeader, Reader(frame)).xid for frame in sent]
        assert [answered for answered in replies if answered > 0] == [xid]
        assert replies[-1] == xid
        sent.clear()
        if closed:
            break
    processor.close()
    assert len(znode_server.watches) == 0
    for path, _data, stat, _access in znode_server.tree.dump():
        assert stat.num_children == len(znode_server.tree.children(path) or ())


SECRET = b"the secret"
CLOSED: AccessList = (AclEntry(ALL, "sasl", "kafka"),)
_LOGIN_ERRORS = (-115, -124)


def protected() -> ZnodeServer:
    """A tree with `/a` and `/a/b`, which belong to another identity than that of the test's client."""
    znode_server = ZnodeServer(SystemClock(), SystemRandom())
    nodes = [Create("/a", SECRET, access=CLOSED), Create("/a/b", SECRET, access=CLOSED)]
    znode_server.submit(nodes, 0)
    return znode_server


def replies_of(
    znode_server: ZnodeServer, settings: AccessSettings, requests: list[tuple[int, bytes]]
) -> list[bytearray]:
    """Return all frames that a client with these requests is sent until it is disconnected."""
    sent: list[bytearray] = []
    closed: list[bool] = []
    authentication = ClientAuthentication(settings, SystemRandom())
    processor = RequestProcessor(
        znode_server,
        znode_server.create_session(None),
        authentication.begin("127.0.0.1"),
        sent.append,
        lambda: closed.append(True),
        ClientStatistics(),
    )
    for xid, (kind, body) in enumerate(requests, 1):
        try:
            processor.handle(memoryview(bytes(encode(RequestHeader(xid, kind))) + body))
        except CorruptPacket:
            break
        if closed:
            break
    processor.close()
    return sent


@given(st.lists(bodies() | garbled, max_size=12))
def test_no_requests_show_or_change_what_belongs_to_another_identity(
    requests: list[tuple[int, bytes]],
) -> None:
    znode_server = protected()
    before = [node for node in znode_server.tree.dump() if node.path.startswith("/a")]
    sent = replies_of(znode_server, AccessSettings({"kafka": "x"}), requests)
    after = [node for node in znode_server.tree.dump() if node.path.startswith("/a")]
    assert after == before
    assert not any(SECRET in frame for frame in sent)


@given(st.lists(bodies() | garbled, min_size=1, max_size=6))
def test_before_a_required_login_nothing_is_answered_but_that(
    requests: list[tuple[int, bytes]],
) -> None:
    znode_server = protected()
    settings = AccessSettings({"kafka": "x"}, required_schemes=("sasl",))
    zxid = znode_server.tree.zxid
    for frame in replies_of(znode_server, settings, requests):
        reader = Reader(frame)
        header = decode(ReplyHeader, reader)
        kind = requests[header.xid - 1][0] if header.xid > 0 else OpCode.AUTH
        if kind in (OpCode.AUTH, OpCode.SASL, OpCode.CLOSE_SESSION):
            assert header.error in (0, -115)
        else:
            assert header.error in _LOGIN_ERRORS
            assert reader.remaining == 0
    assert znode_server.tree.zxid == zxid
