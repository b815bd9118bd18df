import { catalogue } from './catalogue.ts'

export const overviewWords = catalogue({
  lead: { en: 'Signalbox {version} on {engine}', zh: 'Signalbox {version}，存储引擎 {engine}' },
  problems: { en: 'Needs attention', zh: '需要关注' },
  allWell: { en: 'Nothing needs attention', zh: '一切正常' },
  allWellMore: {
    en: 'All checks pass, no queue is behind, no job is dead.',
    zh: '所有检查均通过，没有积压的队列，也没有失败的任务。',
  },
  checkFailed: { en: 'Check "{subject}" fails', zh: '检查“{subject}”未通过' },
  checkFailedNext: { en: 'See health', zh: '查看健康状态' },
  deadJobs: {
    en: { one: '{count} dead job in {subject}', other: '{count} dead jobs in {subject}' },
    zh: '{subject} 中有 {count} 个失败任务',
  },
  deadJobsNext: { en: 'Look at them', zh: '查看任务' },
  queuePaused: {
    en: { one: '{subject} is paused, {count} job waits', other: '{subject} is paused, {count} jobs wait' },
    zh: '{subject} 已暂停，{count} 个任务在等待',
  },
  queuePausedNext: { en: 'Open the queue', zh: '打开队列' },
  queueBehind: {
    en: {
      one: '{subject} is behind, {count} job is ready',
      other: '{subject} is behind, {count} jobs are ready',
    },
    zh: '{subject} 处理滞后，{count} 个任务就绪',
  },
  queueBehindNext: { en: 'Open the queue', zh: '打开队列' },
  noNodes: {
    en: {
      one: '{count} task waits and no node is connected',
      other: '{count} tasks wait and no node is connected',
    },
    zh: '{count} 个派发任务在等待，但没有节点连接',
  },
  noNodesNext: { en: 'Look at nodes', zh: '查看节点' },
  clockJump: {
    en: 'The clock of the store jumped by {subject}: leases may have ended early or end late',
    zh: '存储的时钟跳变了 {subject}：租约可能提前或推迟到期',
  },
  clockJumpNext: { en: 'See health', zh: '查看健康状态' },
  deadNotifications: {
    en: {
      one: '{count} notification of the subscription {subject} is dead',
      other: '{count} notifications of the subscription {subject} are dead',
    },
    zh: '订阅 {subject} 有 {count} 条通知发送失败且不再重试',
  },
  deadNotificationsNext: { en: 'See and replay them', zh: '查看并重新发送' },
  channelSealed: {
    en: 'The channel of the subscription {subject} does not open: its notifications wait',
    zh: '订阅 {subject} 的渠道无法解封，其通知正在等待',
  },
  channelSealedNext: { en: 'See subscriptions', zh: '查看订阅' },
  weakNext: { en: 'See settings', zh: '查看设置' },

  jobsNow: { en: 'Jobs now', zh: '当前任务' },
  perMinute: { en: 'ended a minute', zh: '每分钟结束' },
  overTime: { en: 'The last hour, through this server', zh: '最近一小时（经过本服务器）' },
  throughput: { en: 'Jobs per second', zh: '每秒任务数' },
  added: { en: 'added', zh: '新增' },
  completed: { en: 'completed', zh: '完成' },
  failed: { en: 'failed', zh: '失败' },
  waiting: { en: 'Wait before a claim', zh: '领取前等待' },
  running: { en: 'Run time', zh: '运行时长' },
  median: { en: 'median', zh: '中位数' },
  slowest: { en: 'slowest 1 %', zh: '最慢 1%' },
  ready: { en: 'ready', zh: '就绪' },
  runningNow: { en: 'running', zh: '运行中' },
  backlog: { en: 'Backlog', zh: '积压' },
  backlogNote: { en: 'recorded while somebody looks', zh: '仅在有人查看时记录' },

  queues: { en: 'Queues', zh: '队列' },
  allQueues: { en: 'All queues', zh: '全部队列' },
  queue: { en: 'Queue', zh: '队列' },
  oldest: { en: 'Oldest ready', zh: '最早就绪' },
  noQueues: { en: 'No jobs yet', zh: '还没有任务' },
  noQueuesNext: {
    en: 'Add the first one from a shell, and watch it arrive here:',
    zh: '在终端添加第一个任务，即可在此看到：',
  },
  health: { en: 'Health', zh: '健康状态' },
  checksPass: { en: { one: '{count} check passes', other: '{count} checks pass' }, zh: '{count} 项检查通过' },
})
