// An OpenID provider for tests: one confidential client, users by any name with any password, and a claim `groups`.
// Its argument is the client's redirect address; the first line of its output is its URL.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';

import Provider from 'oidc-provider';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const groups = { rita: ['admins', 'others'] };

function provider(issuer) {
  const made = new Provider(issuer, {
    clients: [{
      client_id: 'console',
      client_secret: 'console-secret',
      grant_types: ['authorization_code'],
      response_types: ['code'],
      redirect_uris: [process.argv[2]],
      application_type: 'native',
    }],
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    pkce: { required: () => true },
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' }] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: groups[id] ?? [] }),
    }),
    cookies: { keys: ['for-tests'] },
  });
  return made.callback();
}

let answer;
const server = createServer((request, response) => answer(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  answer = provider(issuer);
  console.log(issuer);
  process.stdin.on('end', () => process.exit(0)).resume();
});
