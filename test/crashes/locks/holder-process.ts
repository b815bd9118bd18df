/**
 * Another program on the same SQLite file: it takes the write lock, keeps it for a while, lets go, over and over.
 * Started with the file's URL, a seed and the longest hold in milliseconds.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { keepCompiled } from '../../support/compiled.ts'
import { connect } from '../ground.ts'
import { createRandom } from '../random.ts'

const [url, seed, longestMs] = process.argv.slice(2)
const random = createRandom(Number(seed))
const caller = await connect(url!)
keepCompiled()
for (;;) {
  await caller.begin()
  await sleep(random.whole(20, Number(longestMs)))
  await caller.commit()
  await sleep(random.whole(20, 300))
}
