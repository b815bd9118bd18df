import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'vitest'
import { type Catalogue, catalogue, type Entry, fill } from './catalogue.ts'
import { formatOf } from './format.ts'

const words = catalogue({
  jobs: {
    en: { one: '{count} job of {queue}', other: '{count} jobs of {queue}' },
    zh: '{queue} 的 {count} 个作业',
  },
  plain: { en: 'Plain', zh: '普通' },
})

test('a text gets its values, its plural and the number format of its language', () => {
  assert.equal(fill(words.jobs, 'en', { count: 1, queue: 'mail' }), '1 job of mail')
  assert.equal(fill(words.jobs, 'en', { count: 12_000, queue: 'mail' }), '12,000 jobs of mail')
  assert.equal(fill(words.jobs, 'zh', { count: 1, queue: 'mail' }), 'mail 的 1 个作业')
  assert.equal(fill(words.plain, 'zh', {}), '普通')
})

test('a value that looks like a text template is not read as one', () => {
  assert.equal(fill(words.jobs, 'en', { count: 2, queue: '{count} $& <b>' }), '2 jobs of {count} $& <b>')
})

test('a right-to-left name is isolated, so that it does not reorder the words around it', () => {
  assert.equal(fill(words.jobs, 'en', { count: 2, queue: 'بريد 7' }), '2 jobs of \u2068بريد 7\u2069')
})

test('every text of every view exists in both languages, with the same values', async () => {
  const files = readdirSync(import.meta.dirname).filter((name) => /^\w+\.ts$/.test(name))
  let checked = 0
  for (const name of files) {
    const exported = (await import(new URL(name, import.meta.url).href)) as Record<string, unknown>
    for (const [list, value] of Object.entries(exported)) {
      if (!list.endsWith('Words')) continue
      for (const [key, entry] of Object.entries(value as Catalogue)) {
        checked++
        const where = `${list}.${key}`
        const forms = typeof entry.en === 'string' ? [entry.en] : [entry.en.one, entry.en.other]
        for (const form of [...forms, entry.zh]) assert.notEqual(form.trim(), '', where)
        const wanted = namesIn(forms.at(-1)!)
        assert.deepEqual(namesIn((entry as Entry).zh), wanted, where)
        if (typeof entry.en !== 'string')
          assert.ok(wanted.includes('count'), `${where} has a plural, but no count`)
      }
    }
  }
  assert.ok(checked > 100)
})

function namesIn(text: string): readonly string[] {
  return [...new Set(Array.from(text.matchAll(/\{(\w+)\}/g), ([, name]) => name!))].sort()
}

test('spans and times read as people say them', () => {
  const [en, zh] = [formatOf('en'), formatOf('zh')]
  assert.deepEqual([0.4, 12, 950, 1_500, 61_000, 3_600_000, 90_061_000].map(en.span), [
    '0.4 ms',
    '12 ms',
    '950 ms',
    '1.5 s',
    '1 min 1 s',
    '1 h',
    '1 d 1 h',
  ])
  assert.equal(en.relative(1_000_000, 1_000_000 + 3 * 60_000), '3 minutes ago')
  assert.equal(zh.relative(1_000_000, 1_000_000 + 3 * 60_000), '3分钟前')
  assert.equal(en.bytes(200_000), '195.3 KiB')
  assert.equal(en.compact(1_250_000), '1.3M')
})
