import type { Campaign } from './campaign.ts'
import { copyKilling } from './campaigns/copy-killing.ts'
import { demoPlaying } from './campaigns/demo-playing.ts'
import { dispatchKilling } from './campaigns/dispatch-killing.ts'
import { jobsBacklog } from './campaigns/jobs-backlog.ts'
import { jobsCrashes } from './campaigns/jobs-crashes.ts'
import { jobsWalk } from './campaigns/jobs-walk.ts'
import { locksHistories, locksWalk } from './campaigns/locks-campaigns.ts'
import { monitorNotifying } from './campaigns/monitor-notifying.ts'
import { onceGuarding } from './campaigns/once-guarding.ts'
import { serverDribblers } from './campaigns/server-dribblers.ts'
import { serverFuzz } from './campaigns/server-fuzz.ts'
import { serverLanguages } from './campaigns/server-languages.ts'
import { serverPipelining } from './campaigns/server-pipelining.ts'
import { workqueueMutations } from './campaigns/work-queue-mutations.ts'
import { workqueueWalk } from './campaigns/work-queue-walk.ts'
import { mutationCampaign } from './mutations.ts'

/** Every campaign, in the order a full soak runs them. Modules add theirs here. */
export const campaigns: readonly Campaign[] = [
  workqueueWalk,
  mutationCampaign({
    module: 'workqueue',
    paths: ['test/work-queue', 'src/work-queue'],
    mutations: workqueueMutations,
  }),
  jobsWalk,
  ...jobsCrashes,
  jobsBacklog,
  serverLanguages,
  serverDribblers,
  serverFuzz,
  serverPipelining,
  locksWalk,
  locksHistories,
  onceGuarding,
  monitorNotifying,
  dispatchKilling,
  copyKilling,
  demoPlaying,
]
