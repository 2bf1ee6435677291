// An issuer of tokens (OpenID Connect) for tests: one client, JSON web tokens for the audience "kafka".
// The first line of its output is its URL; a line "rotate" on its input gives it another key.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

import Provider from 'oidc-provider';

let generation = 0;

function key() {
  generation += 1;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${generation}`, use: 'sig', alg: 'RS256' };
}

function provider(issuer) {
  return new Provider(issuer, {
    clients: [{
      client_id: 'loader',
      client_secret: 'loader-secret',
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
    }],
    jwks: { keys: [key()] },
    scopes: ['kafka'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:kafka',
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'kafka',
          audience: process.argv[2] ?? 'kafka',
          accessTokenTTL: 60,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  }).callback();
}

let answer;
const server = createServer((request, response) => answer(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  answer = provider(issuer);
  console.log(issuer);
  createInterface({ input: process.stdin }).on('line', () => {
    answer = provider(issuer);
    console.log('rotated');
  }).on('close', () => process.exit(0));
});
