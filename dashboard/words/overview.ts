import { catalogue } from './catalogue.ts'

export const overviewWords = catalogue({
  lead: { en: 'Signalbox {version} on {engine}', zh: 'Signalbox {version}，存储引擎 {engine}' },
  problems: { en: 'Needs attention', zh: '需要关注' },
  allWell: { en: 'Nothing needs attention', zh: '一切正常' },
  allWellMore: {
    en: 'All checks pass, no queue is behind, and no job is dead.',
    zh: '所有检查均通过，没有积压的队列，也没有死信作业。',
  },
  checkFailed: { en: 'Check "{subject}" fails', zh: '检查“{subject}”未通过' },
  checkFailedNext: { en: 'View health', zh: '查看健康状态' },
  deadJobs: {
    en: { one: '{count} dead job in {subject}', other: '{count} dead jobs in {subject}' },
    zh: '{subject} 中有 {count} 个死信作业',
  },
  deadJobsNext: { en: 'View jobs', zh: '查看作业' },
  queuePaused: {
    en: {
      one: '{subject} is paused, {count} job is waiting',
      other: '{subject} is paused, {count} jobs are waiting',
    },
    zh: '{subject} 已暂停，{count} 个作业在等待',
  },
  queuePausedNext: { en: 'View queue', zh: '打开队列' },
  queueBehind: {
    en: '{subject}: {count} ready, the oldest has waited {span}',
    zh: '{subject}：{count} 个作业就绪，最早的已等待 {span}',
  },
  queueBehindNext: { en: 'View queue', zh: '打开队列' },
  workersNext: { en: 'Workers', zh: '工作进程' },
  newestError: { en: 'the newest: {error}', zh: '最近一个的错误：{error}' },
  causeJoin: { en: ', ', zh: '，' },
  noWorker: { en: 'no live worker takes it', zh: '没有在线的工作进程处理它' },
  allQuiet: {
    en: {
      one: 'its {count} worker is quiet or stopping',
      other: 'its {count} workers are quiet or stopping',
    },
    zh: '其 {count} 个工作进程均处于静默或正在停止',
  },
  allBusy: {
    en: { one: 'its {count} worker is busy', other: 'all of its {count} workers are busy' },
    zh: '其 {count} 个工作进程全部占满',
  },
  atLimit: { en: 'its limit of {count} at once is reached', zh: '已达到并发限制 {count}' },
  worked: {
    en: { one: '{count} worker takes it', other: '{count} workers take it' },
    zh: '有 {count} 个工作进程处理它',
  },
  queueUntaken: {
    en: '{subject}: {count} ready, the oldest has waited {span}, no live worker takes it',
    zh: '{subject}：{count} 个作业就绪，最早的已等待 {span}，没有在线的工作进程处理',
  },
  queueUntakenNext: { en: 'Workers', zh: '工作进程' },
  kindUnknown: {
    en: 'Kind {subject}: no worker knows it, {count} ready, the oldest has waited {span}',
    zh: '类型 {subject}：没有工作进程认识它，{count} 个作业就绪，最早的已等待 {span}',
  },
  kindUnknownNext: { en: 'View jobs', zh: '查看作业' },
  noNodes: {
    en: {
      one: '{count} task is waiting, but no node is connected',
      other: '{count} tasks are waiting, but no node is connected',
    },
    zh: '{count} 个任务在等待，但没有节点连接',
  },
  noNodesNext: { en: 'View nodes', zh: '查看节点' },
  clockJump: {
    en: 'The store’s clock jumped by {subject}: leases may expire early or late',
    zh: '存储的时钟跳变了 {subject}：租约可能提前或推迟到期',
  },
  clockJumpNext: { en: 'View health', zh: '查看健康状态' },
  deadNotifications: {
    en: {
      one: '{count} dead notification of subscription {subject}',
      other: '{count} dead notifications of subscription {subject}',
    },
    zh: '订阅 {subject} 有 {count} 条死信通知',
  },
  deadNotificationsNext: { en: 'View and resend', zh: '查看并重新发送' },
  channelSealed: {
    en: 'The channel of subscription {subject} cannot be decrypted: its notifications are waiting',
    zh: '订阅 {subject} 的渠道无法解封，其通知正在等待',
  },
  channelSealedNext: { en: 'View subscriptions', zh: '查看订阅' },

  jobsNow: { en: 'Jobs now', zh: '当前作业' },
  perMinute: { en: 'finished per minute', zh: '每分钟结束' },
  queues: { en: 'Queues', zh: '队列' },
  allQueues: { en: 'All queues', zh: '全部队列' },
  queue: { en: 'Queue', zh: '队列' },
  lastActive: { en: 'Last active', zh: '最近活动' },
  oldest: { en: 'Oldest ready', zh: '最早就绪' },
  noQueues: { en: 'No jobs yet', zh: '还没有作业' },
  noQueuesNext: {
    en: 'Add the first job from a shell and watch it appear here:',
    zh: '在终端添加第一个作业，即可在此看到：',
  },
  health: { en: 'Health', zh: '健康状态' },
  checksPass: { en: { one: '{count} check passes', other: '{count} checks pass' }, zh: '{count} 项检查通过' },
})
