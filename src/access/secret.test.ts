import assert from 'node:assert/strict'
import { test } from 'vitest'
import { readSources } from '../../test/house/sources.ts'
import { createId } from '../core/ids.ts'
import { createSecret, digestOf, isSecret, presentSecret, sameDigest } from './secret.ts'

test('a secret names its token and carries 256 random bits', () => {
  const id = createId()
  const secret = createSecret(id)
  assert.match(secret, new RegExp(`^sbx_${id}_[A-Za-z0-9_-]{43}$`))
  assert.deepEqual(presentSecret(secret), { id, digest: digestOf(secret) })
  assert.equal(new Set(Array.from({ length: 1_000 }, () => createSecret(id))).size, 1_000)
})

test('text of any length is accepted without an error, and only the right form names a token', () => {
  const secret = createSecret(createId())
  for (let length = 0; length <= 10_000; length++) {
    const { id, digest } = presentSecret('x'.repeat(length))
    assert.equal(id, undefined)
    assert.equal(digest.length, 64)
  }
  for (let length = 0; length < secret.length; length++)
    assert.equal(presentSecret(secret.slice(0, length)).id, undefined)
  for (const wrong of [
    `${secret}x`,
    secret.toUpperCase(),
    secret.replace('sbx_', 'sbx-'),
    `sbx_${'u'.repeat(26)}_${'a'.repeat(43)}`,
    '\ud800'.repeat(74),
  ])
    assert.equal(isSecret(wrong), false, wrong)
})

test('digests are equal or not, and an invalid digest equals nothing', () => {
  const digest = digestOf('a')
  assert.equal(sameDigest(digest, digestOf('a')), true)
  assert.equal(sameDigest(digest, digestOf('b')), false)
  for (const spoilt of [
    '',
    'ab',
    digest.slice(1),
    `${digest}00`,
    'z'.repeat(64),
    '\u0000',
    digest.slice(2),
  ]) {
    assert.equal(sameDigest(digest, spoilt), false)
    assert.equal(sameDigest(spoilt, digest), false)
    assert.equal(sameDigest(spoilt, spoilt), false)
  }
})

/** How much longer the median call takes with a guess that shares a long prefix than with one that shares none. */
function separationByPrefix(isRight: (guess: string) => boolean, secret: string): number {
  const guesses = [`${secret.slice(0, -1)}!`, `!${secret.slice(1)}`]
  const times: number[][] = [[], []]
  for (let round = 0; round < 50_000; round++) {
    for (const which of [0, 1]) {
      const began = process.hrtime.bigint()
      isRight(guesses[which]!)
      times[which]!.push(Number(process.hrtime.bigint() - began))
    }
  }
  const [long, none] = times.map((all) => all.sort((a, b) => a - b)[all.length >> 1]!)
  return long! / none!
}

test('the time for a wrong secret does not depend on its correct part', () => {
  const secret = 'k'.repeat(2_000)
  const kept = digestOf(secret)
  const ours = separationByPrefix((guess) => sameDigest(digestOf(guess), kept), secret)
  assert.ok(ours > 0.85 && ours < 1.15, `a prefix shows: ${ours}`)
  // The same measurement finds a comparison that stops at the first difference.
  const naive = separationByPrefix((guess) => {
    for (let i = 0; i < secret.length; i++) if (guess.charCodeAt(i) !== secret.charCodeAt(i)) return false
    return true
  }, secret)
  assert.ok(naive > 2, `the measurement is blind: ${naive}`)
})

test('secrets are compared in one place only, and webhook signatures in another', async () => {
  const comparison =
    /(?:secret|digest|bearer)\w*\)?\s*[=!]==?\s|[=!]==?\s*[\w.?]*(?:secret|digest)\w*\b(?!\.length)|(?:secret|digest)\w*\.(?:equals|localeCompare)\(/i
  const found: string[] = []
  const places = ['src/access/secret.ts', 'src/monitor/channels/webhook.ts']
  let constant = 0
  for (const [path, source] of await readSources()) {
    if (places.includes(path)) {
      constant += source.match(/timingSafeEqual\(/g)?.length ?? 0
      continue
    }
    for (const line of source.split('\n')) {
      // Asking whether there is one at all, what form it has, or how channel secrets are stored, compares nothing.
      const asks =
        /(?:typeof [\w.]*(?:secret|digest)\w*|(?:secret|digest)\w*) [=!]== (?:undefined|null|'(?:string|plain|unreadable)?')/i
      if (/timingSafeEqual/.test(line) || comparison.test(line.replace(asks, '')))
        found.push(`${path}: ${line}`)
    }
  }
  assert.deepEqual(found, [])
  assert.equal(constant, places.length)
  for (const line of ['if (secret === kept) x', 'a !== token.digest', 'digest.equals(other)'])
    assert.match(line, comparison)
})
