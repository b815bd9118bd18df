/** A process with a worker, which runs schedules as every box with a worker does, until it is killed. */
import { open } from '../../../src/index.ts'
import { keepCompiled } from '../../support/compiled.ts'

const { url }: { readonly url: string } = JSON.parse(process.argv[2]!)
const box = await open(url as 'sqlite:', { namespace: 'scheduling' })
const worker = box.jobs.worker({ handlers: { tick: () => undefined } })
process.once('SIGTERM', async () => {
  await box.close()
  process.exit(0)
})
await worker.start()
keepCompiled()
console.log('ready')
