import type { Box } from '../../index.ts'
import { type Bench, type BenchLine, lineOf, repeat } from './measure.ts'
import type { Raw } from './raw.ts'

/** Guards: a key that nobody claimed before, many at once, and a key that was done before. */
export async function benchOnce(bench: Bench, box: Box, raw: Raw | undefined): Promise<readonly BenchLine[]> {
  const keys: string[] = []
  const claim = async (key: string) => {
    keys.push(key)
    const answer = await box.once.claim(key)
    if (answer.status !== 'run') throw new Error(`The key was ${answer.status}.`)
    await box.once.done(key, answer.token, null)
  }
  try {
    const one = await repeat(bench, { name: 'claim and done', most: 20_000 }, (number) =>
      claim(`one-${number}`),
    )
    const fifty = await repeat(
      bench,
      { name: 'claim and done, 50 at once', width: 50, most: 50_000 },
      (number) => claim(`fifty-${number}`),
    )
    const again = await repeat(bench, { name: 'claim again' }, async () => {
      const { status } = await box.once.claim('one-0')
      if (status !== 'done') throw new Error(`The key was ${status}.`)
    })
    // Two commits a key.
    const commits = raw && raw.commitsPerSecond / 2
    return [
      lineOf('claim and done', 'new keys, one after the other', one, commits),
      lineOf('claim and done, 50 at once', 'new keys', fifty),
      lineOf('claim again', 'keys that were done before', again),
    ]
  } finally {
    bench.tick('forgetting the keys')
    for (let at = 0; at < keys.length; at += 100)
      await Promise.all(keys.slice(at, at + 100).map((key) => box.once.forget(key)))
  }
}
