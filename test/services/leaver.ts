/**
 * A program that starts services and leaves without ending them: `node leaver.ts waits|throws|exits NAME…`. It prints
 * one line of JSON, and then waits to be killed, throws, or exits. (leftovers.test.ts)
 */
import { type ServiceName, startServices } from '../support/services/index.ts'

const [manner, ...names] = process.argv.slice(2)
const { list } = await startServices(names as ServiceName[])
console.log(JSON.stringify(list.map(({ pid, folder }) => ({ pid, folder }))))

if (manner === 'throws') throw new Error('the test asked for it')
if (manner === 'exits') process.exit(0)
setInterval(() => undefined, 60_000)
